set -e
cd .xp
python3 -c "
import importlib
for m in 'numpy scipy sklearn pandas narwhals torch safetensors joblib rich threadpoolctl'.split():
    try: print(m, importlib.import_module(m).__version__)
    except Exception as e: print(m, 'missing', type(e).__name__)
"
mkdir -p /tmp/site; for w in wheels/*.whl; do python3 -m zipfile -e $w /tmp/site; done
export PYTHONPATH=/tmp/site:$PWD PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
nproc; python3 -c "import sklearn,pandas,numpy,suwr; print(sklearn.__version__, pandas.__version__, numpy.__version__)"
python3 sweep.py $OUT/res.jsonl $1 jobs.json
