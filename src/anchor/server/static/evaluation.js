// An evaluation: its metrics.
import { count, el, fill, get, keyOfPage, part, title } from './common.js'

fill(async () => {
  const found = await get(`/api/evaluations/${part(keyOfPage())}`)
  if (!found.finished) return [title(found.label), el('p', {}, 'It is not finished: repeat its command.')]
  const rows = found.metrics.map(({ name, value, about }) => el('tr', {}, el('td', {}, name), el('td', { class: 'n' }, value), el('td', { class: 'note' }, about)))
  const judged = Object.entries(found.footer).map(([name, value]) => el('tr', {}, el('td', { class: 'note' }, name), el('td', {}, value)))
  return [
    title(found.label),
    el('p', { class: 'sub' }, `${count(found.structures)} structures, ${found.seeds} ${found.seeds === 1 ? 'seed' : 'seeds'}`),
    el('section', {}, el('div', { class: 'scroll' }, el('table', { class: 'list' },
      el('thead', {}, el('tr', {}, el('th', {}, 'metric'), el('th', { class: 'n' }, 'value'), el('th', {}, 'meaning'))), el('tbody', {}, ...rows)))),
    el('section', {}, el('h2', {}, 'Judged by'), el('table', {}, el('tbody', {}, ...judged)), el('pre', {}, `$ ${found.command}`)),
  ]
})
