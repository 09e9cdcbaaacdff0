// Campaigns beside one another.
import { box, count, el, fill, get, title } from './common.js'

const percent = (rate) => (rate ? `${(100 * rate[0]).toFixed(1)} % (${(100 * rate[1]).toFixed(1)}–${(100 * rate[2]).toFixed(1)})` : '–')

fill(async () => {
  const found = await get('/api/compare', { key: new URLSearchParams(location.search).getAll('key') })
  const rows = [
    ['proposed by', (c) => c.source],
    ['potential', (c) => c.potential],
    ['prior', (c) => c.prior],
    ['structures proposed', (c) => count(c.proposed)],
    ['relaxations', (c) => count(c.relaxations)],
    ['hours', (c) => c.hours.toFixed(2)],
    ...Object.entries(found.labels).map(([name, text]) => [text, (c) => percent(c.of_proposed[name])]),
    ['refined finds', (c) => count(c.finds.finds)],
    ['finds that passed other potentials', (c) => `${count(c.finds.verified)} of ${count(c.finds.attacked)} attacked`],
  ]
  const head = el('tr', {}, el('th'), ...found.campaigns.map((c) => el('th', {}, c.label)))
  const body = rows.map(([text, show]) => el('tr', {}, el('td', { class: 'note' }, text), ...found.campaigns.map((c) => el('td', {}, show(c)))))
  const charts = Object.entries(found.curves).filter(([, series]) => series.length).map(([name, series]) => {
    const section = box(`curve-${name}`, found.labels[name])
    anchor.lineChart(section.querySelector('div'), { series, xLabel: 'structures proposed', yLabel: '% of proposed', percent: true })
    return section
  })
  return [
    title('Campaigns compared'),
    el('section', {}, el('p', { class: 'note' }, 'Rates of all structures proposed, with 95 % intervals. Other potentials, hulls and priors are other questions.'),
      el('div', { class: 'scroll' }, el('table', { class: 'list' }, el('thead', {}, head), el('tbody', {}, ...body)))),
    el('div', { class: 'grid2' }, ...charts),
  ]
})
