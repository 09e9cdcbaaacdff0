// Studies in a folder, as far as they are made.
import { el, fill, get, keyOfPage, part, title } from './common.js'

const line = (row) => el('tr', row[0].endsWith(', the paper') ? { class: 'note' } : {}, ...row.map((text) => el('td', {}, text)))

const table = (found) => el('section', {},
  el('h2', {}, `${found.study}, ${found.scale}: ${found.made} of ${found.of} rows`),
  el('p', {}, `${found.title}. The paper: ${found.claim}`),
  el('div', { class: 'scroll' }, el('table', {},
    el('thead', {}, el('tr', {}, ...found.head.map((text) => el('th', {}, text)))),
    el('tbody', {}, ...found.rows.map(line)))),
  ...found.notes.map((note) => el('p', { class: 'note' }, note)))

fill(async () => {
  const { tables } = await get(`/api/studies/${part(keyOfPage())}`)
  return [title('Studies'), tables.length ? tables.map(table) : el('p', {}, 'No row of a study is finished here: anchor study run NAME')]
})
