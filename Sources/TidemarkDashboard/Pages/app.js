// The frame: the session, the pages, and the header.

import { Tidemark } from '../client/tidemark.js'
import { card, dim, empty, h, number, problem, span, words } from './dom.js'
import { Live } from './live.js'
import { link, optional, place } from './route.js'

const tokenName = 'tidemark-token'
const main = document.getElementById('main')
const top = document.getElementById('top')
const status = h('div', { class: 'where' })
const pages = ['overview', 'tables', 'revisions', 'devices', 'conflicts', 'health', 'schema']

let session
let page = new AbortController()

/** Opens a zone: its client and its stream. */
function open(zone) {
  const token = sessionStorage.getItem(tokenName) ?? undefined
  const isSame = session && session.client.token === token
  if (isSame && session.client.zone === zone) return
  session?.live.stop()
  const client = new Tidemark(new URL('..', import.meta.url), { zone, token })
  const live = new Live(client)
  session = { client, live, zones: isSame ? session.zones : undefined }
  const own = act => () => { if (live === session.live) act() }
  live.addEventListener('change', own(showStatus))
  live.addEventListener('refused', own(signIn))
  live.start()
}

function showHeader(name) {
  const waves = [6, 10, 14].map((y, index) => h('svg:path', { d: `M2 ${y}q4-3.5 8 0t8 0`, opacity: 1 - index / 3.5 }))
  const links = pages.map(path => h('a', { href: link(path), 'aria-current': path === name && 'page' }, path))
  const mark = h('svg:svg', { viewBox: '0 0 20 20', 'aria-hidden': 'true' }, waves)
  top.replaceChildren(h('a', { class: 'brand', href: link('') }, mark, 'Tidemark'),
    h('nav', { 'aria-label': 'Pages' }, links), status)
  showStatus()
}

function zoneChoice({ zones, client }) {
  if (!zones?.length) return words(client.zone)
  const all = new Map([[client.zone], ...zones.map(({ zone, title }) => [zone, title])])
  const go = event => { location.hash = `#/zones/${encodeURIComponent(event.target.value)}` }
  return h('select', { 'aria-label': 'Zone', onchange: go }, [...all].map(([zone, title]) =>
    h('option', { value: zone, selected: zone === client.zone }, title || zone)))
}

function showStatus() {
  if (status.querySelector(':focus')) return
  const { state, revision } = session.live
  const word = { open: 'live', waiting: 'reconnecting', absent: 'not live' }[state] ?? 'connecting'
  const signOut = () => { sessionStorage.removeItem(tokenName); location.reload() }
  status.replaceChildren(zoneChoice(session), revision === undefined ? '' : span('num', `revision ${number(revision)}`),
    h('span', { class: `dot ${state}`, title: word, role: 'img', 'aria-label': word }),
    session.client.token ? h('button', { onclick: signOut }, 'Sign out') : '')
}

function signIn() {
  page.abort()
  main.ariaBusy = false
  session.live.stop()
  const field = h('input', { type: 'password', id: 'token', autocomplete: 'off', required: true })
  const enter = event => {
    event.preventDefault()
    sessionStorage.setItem(tokenName, field.value.trim())
    show()
  }
  const refusal = h('p', { class: 'bad', role: 'alert' }, 'The server did not accept this token.')
  main.replaceChildren(h('div', { class: 'card center' }, h('h1', {}, 'This server has users'),
    h('p', {}, dim('Paste a token, as ', h('code', {}, 'tidemark token add NAME'),
      ' prints one. It stays in this tab until you close it. The page shows what the token may see.')),
    session.client.token && refusal,
    h('form', { onsubmit: enter }, h('label', { for: 'token' }, 'Token'), field,
      h('button', { class: 'primary' }, 'Sign in'))))
  field.focus()
}

const lost = (message, fix) => ({ message, fix, code: 'unknownPath', status: 404 })

async function show() {
  page.abort()
  page = new AbortController()
  const { signal } = page
  const { zone, name, parts, query, isBroken } = place()
  open(zone)
  const known = name || 'overview'
  showHeader(known)
  main.ariaBusy = true
  let content
  try {
    if (isBroken) throw lost('This address is not whole.', 'A % in it has no two digits behind it.')
    if (!pages.includes(known)) throw lost(`There is no page ${decodeURIComponent(name)}.`, 'The pages stand above.')
    document.title = [...parts.map(decodeURIComponent).reverse(), known, zone, 'Tidemark'].join(' · ')
    const module = await import(known === 'tables' && parts.length > 1 ? './record.js' : `./${known}.js`)
    content = await module.show({ ...session, parts, query, signal, main })
  } catch (error) {
    if (signal.aborted) return
    if (error.status === 401) return signIn()
    content = error.status === 403 ? card(empty('Your token may not see this page.')) : problem(error)
  }
  if (signal.aborted) return
  main.ariaBusy = false
  if (content) main.replaceChildren(...[content].flat().filter(Boolean))
  const path = location.hash.split('?')[0]
  // Another page begins at its top; a filtered one stays where it is.
  if (main.dataset.path !== path) { main.focus({ preventScroll: true }); scrollTo(0, 0) }
  main.dataset.path = path
  await askForZones()
}

/** The zones of the user, where the server has users. */
async function askForZones() {
  const { client, zones, live } = session
  if (zones || !client.token) return
  try { session.zones = (await optional(client.read('/zones')))?.zones ?? [] } catch { return }
  showStatus()
  const [first] = session.zones
  // A user who is no member of `main` begins with a zone of their own.
  if (live.state !== 'absent' || place().zone !== 'main' || !first) return
  location.hash = `#/zones/${encodeURIComponent(first.zone)}`
}

// A browser opens six connections to a server: a page that nobody sees gives its stream back.
document.addEventListener('visibilitychange', () => document.hidden ? session.live.stop() : session.live.start())
addEventListener('hashchange', show)
show()
