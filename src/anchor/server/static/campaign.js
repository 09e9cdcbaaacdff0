// A campaign: how far it is (told by the server as it happens), its list, its pictures.
import { box, count, el, energy, fill, formula, get, keyOfPage, mayChange, part, post, problem, title } from './common.js'
import { browser } from './browser.js'

const TILES = {
  valid: 'valid', metastable: 'within 0.1 eV/atom of the hull', stable: 'on the hull', msun: 'MSUN: near the hull, unique, novel',
  sun: 'SUN: on the hull, unique, novel', known_anywhere: 'valid, formula known already',
}
const SLOW = 5000 // ms between two redrawings of list and pictures
const LOCKED = 'open the address with the token that anchor serve printed'
const key = keyOfPage()
const base = `/api/campaigns/${part(key)}`

fill(async () => {
  const first = await get(base)
  const [head, progress, log, pictures, listed] = ['head', 'progress', 'log', 'pictures', 'list'].map((id) => el('div', { id }))
  const actions = el('div', { class: 'row', style: 'margin: .6rem 0' })
  let list = null, drawn = '', due = null, state = ''

  async function draw() {
    due = null
    try {
      const data = await get(`${base}/overview`)
      if (!pictures.firstChild) {
        pictures.append(el('div', { class: 'grid2' }, box('found', 'Found over the run'), box('rates', 'Rates over the run, 95 % intervals'),
          box('energies', 'Energies above the hull'), box('elements', 'Elements'),
          box('terms', 'Reward and its terms, means of valid candidates'), box('time', 'Where the time went'),
          data.curves.control.length ? box('entropy', 'Entropy and its controller', 'Dotted: target.') : '',
          data.curves.known.length ? box('known', 'Known formulas and repeats') : ''))
      }
      anchor.drawOverview(data)
      say(data.head)
    } catch (error) {
      pictures.replaceChildren(problem(error))
    }
  }

  // The words of the report: what was found, and after nothing what to try.
  function say({ title, sentences, advice }) {
    head.replaceChildren(el('p', { class: 'said' }, title), el('p', { class: 'note' }, sentences.join(' ').replaceAll('FOLDER', first.name)),
      advice.length ? el('div', { class: 'advice' }, 'What to try:', el('ul', {}, ...advice.map((text) => el('li', {}, text.replaceAll('FOLDER', first.name))))) : '')
  }

  const act = (what) => async (event) => {
    event.target.disabled = true
    try {
      await post(`${base}/${what}`)
    } catch (error) {
      actions.append(problem(error))
      state = ''
    }
  }

  function buttons(now) {
    const next = [now.running, now.job?.state, now.structures === undefined, mayChange()].join()
    if (next === state) return
    state = next
    const button = (text, what, why) => el('button', { type: 'button', onclick: act(what), disabled: !mayChange(), title: mayChange() ? why : LOCKED }, text)
    const words = now.job && now.job.state !== 'ended' ? now.job.state : now.running ? 'running elsewhere' : 'not running'
    const parts = [el('span', { id: 'state', class: `chip ${now.running ? 'find' : ''}` }, words)]
    if (now.job?.state === 'running') parts.push(button('Stop after this step', 'stop', 'as Ctrl-C: finishes the step and relaxes the finds; it can be resumed'))
    if (now.job?.state === 'stopping') parts.push(el('span', { class: 'note' }, 'finishing the step and relaxing finds'), button('Stop at once', 'stop', 'without the unfinished step'))
    if (!now.running && now.structures !== undefined) parts.push(button('Resume', 'resume', 'go on to the budget'))
    actions.replaceChildren(...parts)
  }

  function show(now) {
    buttons(now)
    if (now.job) {
      const ended = now.job.state === 'ended'
      const open = log.querySelector('details')?.open ?? (ended && now.job.code !== 0)
      log.replaceChildren(el('details', { open }, el('summary', { class: 'note' }, ended ? `what it printed (ended with ${now.job.code})` : 'what it prints'),
        el('pre', {}, `$ ${now.job.command.join(' ')}\n${now.job.log}`)))
    }
    if (now.structures === undefined) {
      progress.replaceChildren(el('p', {}, now.running ? 'loading prior, potential and hull; the first structures come in a moment …' : now.waiting || 'nothing was made'))
      return
    }
    progress.replaceChildren(
      el('progress', { max: Math.max(now.budget, now.structures), value: now.structures, 'aria-label': 'structures' }),
      el('p', { class: 'note' }, `${count(now.structures)} of ${count(now.budget)} structures in ${count(now.steps)} ${now.steps === 1 ? 'step' : 'steps'}; ${count(now.refined)} refined; ${count(now.verdicts)} verdicts`),
      el('div', { class: 'tiles' }, ...Object.entries(TILES).map(([name, text]) => el('div', { class: 'tile', id: `count-${name}` }, el('b', {}, count(now.counts[name])), el('span', {}, text)))),
      now.running ? el('p', { class: 'note' }, 'just now: ', ...now.latest.flatMap((row, i) => [i ? ', ' : '', formula(row.formula), ` ${energy(row.energy_above_hull_ev_per_atom)}`])) : '',
    )
    const mark = [now.steps, now.refined, now.verdicts].join()
    if (!list) {
      const kinds = { finds: 'finds, cell relaxed', refined: 'finds, near, far and others', candidates: 'all candidates' }
      list = browser(base, now.refined ? kinds : Object.fromEntries(Object.entries(kinds).reverse()))
      listed.replaceChildren(el('section', {}, el('h2', {}, 'Crystals'), list.node))
      draw()
    } else if (mark !== drawn) {
      due ??= setTimeout(() => {
        draw()
        list.reload()
      }, SLOW)
    }
    drawn = mark
  }

  const about = [first.source && `proposed by ${first.source}`, first.potential, first.limits].filter(Boolean).join(' · ')
  const events = new EventSource(`${base}/events`)
  events.onmessage = (event) => show(JSON.parse(event.data))
  window.addEventListener('pagehide', () => events.close())
  queueMicrotask(() => show(first))
  return [title(first.name), el('p', { class: 'sub' }, about), actions, progress, log, head, listed, pictures]
})
