// Campaigns beside one another.
import { box, count, el, fill, get, title } from './common.js'

const percent = (rate) => {
  if (!rate) return ['–']
  const [value, low, high] = rate.map((x) => (100 * x).toFixed(1))
  return [el('span', { class: 'whole' }, `${value} %`), ' ', el('span', { class: 'whole' }, `(${low}–${high})`)]
}
const lasted = (hours) => {
  const seconds = 3600 * hours
  return seconds < 120 ? `${seconds.toFixed(0)} s` : seconds < 7200 ? `${(seconds / 60).toFixed(0)} min` : `${hours.toFixed(1)} h`
}

fill(async () => {
  const found = await get('/api/compare', { key: new URLSearchParams(location.search).getAll('key') })
  const rows = [
    ['proposed by', (c) => c.source],
    ['potential', (c) => c.potential],
    ['prior', (c) => c.prior],
    ['structures proposed', (c) => count(c.proposed)],
    ['relaxations', (c) => count(c.relaxations)],
    ['time', (c) => lasted(c.hours)],
    ...Object.entries(found.labels).map(([name, text]) => [text, (c) => percent(c.of_proposed[name])]),
    ['refined finds', (c) => count(c.finds.finds)],
    ['finds that passed other potentials', (c) => `${count(c.finds.verified)} of ${count(c.finds.attacked)} attacked`],
  ]
  const head = el('tr', {}, el('th'), ...found.campaigns.map((c) => el('th', {}, c.label)))
  const body = rows.map(([text, show]) => el('tr', {}, el('td', { class: 'note' }, text), ...found.campaigns.map((c) => el('td', {}, ...[show(c)].flat()))))
  const until = Math.max(1, ...found.campaigns.map((c) => c.proposed))
  const charts = Object.entries(found.curves).filter(([, series]) => series.length).map(([name, series]) => {
    const section = box(`curve-${name}`, found.labels[name])
    anchor.lineChart(section.querySelector('div'), { series, xLabel: 'structures proposed', yLabel: '% of proposed', percent: true, until })
    return section
  })
  return [
    title('Campaigns compared'),
    el('section', {}, el('p', { class: 'note' }, 'Rates of all structures proposed, with 95 % intervals. Other potentials, hulls and priors are other questions.'),
      el('div', { class: 'scroll' }, el('table', { class: 'list' }, el('thead', {}, head), el('tbody', {}, ...body)))),
    el('div', { class: 'grid2' }, ...charts),
  ]
})
