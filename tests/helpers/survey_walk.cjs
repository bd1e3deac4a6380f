// Fills in a survey for each row and prints what was shown on the way; see survey_core.py.
const { Model } = require(process.argv[2]);
const { survey: content, rows } = JSON.parse(require("node:fs").readFileSync(0));

function fill(survey, answers) {
  const texts = [survey.locTitle.renderedHtml, survey.locDescription.renderedHtml];
  const pages = [];
  let result = null;
  survey.currentPageNo = 0;
  for (;;) {
    pages.push(survey.currentPage.name);
    for (const question of survey.currentPage.visibleQuestions) {
      if (question.getType() === "html") {
        result = question.locHtml.textOrHtml;
        continue;
      }
      texts.push(question.locTitle.renderedHtml);
      texts.push(...(question.visibleChoices ?? []).map((c) => c.locText.renderedHtml));
      if (question.name in answers) question.value = answers[question.name];
      else question.clearValue();
    }
    if (survey.isLastPage || !survey.nextPage()) break;
  }
  return { pages, texts, result, data: survey.data };
}

const survey = new Model(content);
if (survey.jsonErrors?.length) throw new Error(survey.jsonErrors[0].getFullDescription());
// There is no page to scroll.
survey.focusOnFirstError = false;
const walks = rows.map((steps) => {
  survey.clear();
  return steps.map((answers) => fill(survey, answers)).at(-1);
});
console.log(JSON.stringify(walks));
