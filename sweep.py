"""python sweep.py OUT.jsonl LIMIT_S JOBS.json : JOBS = list of {label,table,n,share,seed,X,params}"""
import os, sys, time, json, random, warnings
os.environ["OMP_NUM_THREADS"]="1"; os.environ["OPENBLAS_NUM_THREADS"]="1"; os.environ["MKL_NUM_THREADS"]="1"
import numpy as np
T0=time.time()
HERE=os.path.dirname(os.path.abspath(__file__)); TABLES=os.environ.get("TABLES", HERE+"/tables")
REG="concrete Credit diamonds Boston Auto Carseats HousePrices Sacramento biomass hotel_rates Hitters deliveries College Wage Chicago".split()
CLS="segment vehicle ring pima australian OJ texture penbased hpc_data magic heart bupa ionosphere contraceptive".split()
def syn(k,n,seed):
    rng=np.random.RandomState(seed); X=rng.randn(n,11)
    a=np.exp(X[:,0]*X[:,1]); b=np.exp((X[:,2:6]**2).sum(1)-4); c=np.exp(-10*np.sin(.2*X[:,6])+np.abs(X[:,7])+X[:,8]+np.exp(-X[:,9])-2.4)
    neg=X[:,10]<0
    g={4:np.where(neg,a,b),5:np.where(neg,a,c),6:np.where(neg,b,c)}[k]
    p=1/(1+g); y=(rng.rand(n)<p).astype(int)
    rel=np.zeros((n,11),bool); rel[:,10]=True
    first={4:[0,1],5:[0,1],6:[2,3,4,5]}[k]; second={4:[2,3,4,5],5:[6,7,8,9],6:[6,7,8,9]}[k]
    rel[np.ix_(neg,first)]=True; rel[np.ix_(~neg,second)]=True
    return X,y,p,rel
def load(t,n,seed):
    import pandas as pd
    if t.startswith("syn"):
        k=int(t[3]); X,y,_,_=syn(k,n,seed+9000); Xt,yt,p,rel=syn(k,10000,seed+15000); return X,y,Xt,yt,False,p,rel
    d=pd.read_csv(f"{TABLES}/{t}.csv"); y=d.pop("Outcome").to_numpy(); reg=t in REG
    if not reg: y=np.unique(y,return_inverse=True)[1]
    o=list(range(len(y))); random.Random(100+seed).shuffle(o); cut=min(n,int(.8*len(y)))
    return d.iloc[o[:cut]].reset_index(drop=True),y[o[:cut]],d.iloc[o[int(.8*len(y)):][:2000]].reset_index(drop=True),y[o[int(.8*len(y)):][:2000]],reg,None,None
def losses(pred,y,reg):
    if reg: return float(np.mean((pred-y)**2))
    return float(-np.log(np.maximum(pred[np.arange(len(y)),y],1e-12)).mean())
def run(job):
    import io, contextlib, torch
    torch.set_num_threads(1); warnings.simplefilter("ignore")
    from suwr import SUWRClassifier, SUWRRegressor
    os.environ["SUWR_X"]=json.dumps(job.get("X",{}))
    t=job["table"]; share=job.get("share",.005); seed=job["seed"]
    try:
        X,y,Xt,yt,reg,p,rel=load(t,job["n"],seed)
        if reg: H=float(np.var(y))
        else:
            q=np.bincount(y)/len(y); H=float(-(q[q>0]*np.log(q[q>0])).sum())
        kind=SUWRRegressor if reg else SUWRClassifier; out=io.StringIO()
        t0=time.process_time(); w0=time.time()
        with contextlib.redirect_stdout(out):
            m=kind(sparsity_weight=share*H,random_state=seed,verbose=0,device="cpu",**job.get("params",{})).fit(X,y)
        cpu=time.process_time()-t0
        pred=m.predict(Xt) if reg else m.predict_proba(Xt)
        if not reg and pred.shape[1]<=yt.max(): return dict(job,error="classes")
        L=losses(pred,yt,reg); cost=float(m.cost(Xt).mean())
        r=dict(job,loss=L/H,cost=cost,J=L/H+share*cost,cpu=round(cpu,1),wall=round(time.time()-w0,1),full=losses(m.predict_masked(Xt,np.ones((len(Xt),X.shape[1]),bool)),yt,reg)/H)
        rep=[json.loads(l[7:]) for l in out.getvalue().splitlines() if l.startswith("REPORT ")]
        if rep: r["rep"]=rep
        r["phases"]={}
        for h in m.history_: r["phases"][h["phase"]]=r["phases"].get(h["phase"],0)+1
        r["choices"]={k:str(v) for k,v in m.choices_.items() if k in("teacher","screening")}
        r["val"]=m.validation_
        s=m.select(Xt); r["steps"]=[int(v) for v in np.bincount(s.sum(1))]
        if rel is not None:
            from sklearn.metrics import roc_auc_score
            r|=dict(auc=float(roc_auc_score(yt,pred[:,1])),gap=float(roc_auc_score(yt,p)-roc_auc_score(yt,pred[:,1])),tpr=float(((s&rel).sum(1)/rel.sum(1)).mean()),fdr=float(((s&~rel).sum(1)/np.maximum(s.sum(1),1)).mean()))
        return r
    except Exception as e:
        import traceback
        return dict(job,error=traceback.format_exc()[-600:])
if __name__=="__main__":
    out,limit,jobs=sys.argv[1],float(sys.argv[2]),json.load(open(sys.argv[3]))
    import multiprocessing as mp
    n=int(os.environ.get("JOBS","16"))
    with mp.get_context("spawn").Pool(n) as pool, open(out,"a") as f:
        it=pool.imap_unordered(run,jobs)
        for k in range(len(jobs)):
            try: r=it.next(timeout=max(1,limit-(time.time()-T0)))
            except mp.TimeoutError: print("time is over at",k); pool.terminate(); break
            f.write(json.dumps(r)+"\n"); f.flush()
            print(k, round(time.time()-T0), r["label"], r["table"], r["seed"], r.get("error","")[-200:] or f"J {r['J']:.3f} cost {r['cost']:.1f} cpu {r['cpu']}",flush=True)
