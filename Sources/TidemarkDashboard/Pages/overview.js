// The first screen: health, needs, live revisions, the zone, devices.

import { a, author, count, dim, empty, grid, h, number, span, summary, time } from './dom.js'
import { metrics } from './metrics.js'
import { link, optional, tableLink } from './route.js'
import { spark } from './spark.js'

const lagMax = 1000
const day = 86_400_000

export const isBehind = ({ lag, lastContact }) => lag > lagMax || Date.now() - Date.parse(lastContact) > 7 * day

export const worstFirst = devices => [...devices].sort((left, right) => right.lag - left.lag
  || (left.lastContact ?? '').localeCompare(right.lastContact ?? ''))

export const noDevices = 'No devices yet. A device appears here with its first sync.'
export const deviceColumns = [['Device', { name: true }], ['Revision', { right: true, hide: true }],
  ['Behind', { right: true }], ['Last contact', { right: true }]]
export const deviceRow = device => [author(device), number(device.revision),
  span(device.lag > lagMax ? 'warn' : '', number(device.lag)), time(device.lastContact)]

export const revisionLine = ({ revision, committed, tables, ...by }, kind) => h('li', { class: kind },
  span('num', a(link(`revisions/${revision}`), number(revision))), dim(time(committed)),
  h('span', {}, author(by), ' · ', summary(tables)))

export async function show({ client, live, signal, main }) {
  await live.ready
  if (signal.aborted) return
  if (!live.tables && live.failure?.status) throw live.failure
  const parts = {}
  for (const name of ['health', 'needs', 'live', 'zone', 'commits', 'devices']) parts[name] = h('section')
  parts.needs.className = 'wide'
  const facts = {}
  const draw = () => {
    if (signal.aborted) return
    drawHealth(parts.health, facts, live)
    drawNeeds(parts.needs, facts)
    drawLive(parts.live, live)
    drawZone(parts.zone, client, live, facts)
    drawCommits(parts.commits, live)
    drawDevices(parts.devices, facts)
  }
  draw()
  main.replaceChildren(h('div', { class: 'two' }, parts.health, parts.needs, parts.live,
    h('div', { class: 'stack' }, parts.zone, parts.commits, parts.devices)))
  optional(client.read('conflicts', { limit: 50 })).then(answer => {
    facts.conflicts = answer?.conflicts.filter(set => Date.now() - Date.parse(set.time) < day)
    draw()
  }, () => {})
  const [page] = await Promise.all([metrics(client), ask(client, facts)]).catch(error => {
    if (error.status) throw error
    facts.failure = error
    return []
  })
  facts.failures = page?.total('tidemark_commit_failures_total')
  facts.isComplete = true
  draw()
  live.addEventListener('change', draw, { signal })
  // Once a minute, while somebody looks.
  const timer = setInterval(() => { if (!document.hidden) ask(client, facts).then(draw, () => {}) }, 60_000)
  signal.addEventListener('abort', () => clearInterval(timer))
  live.fill(500).then(draw, () => {})
}

async function ask(client, facts) {
  const [answer, failure] = await Promise.all([optional(client.read('devices')),
    client.request('GET', '/readyz').then(() => undefined, error => error)])
  facts.devices = answer?.devices
  facts.failure = failure
}

export const lines = items => h('ul', { class: 'lines' }, items)

const cut = { message: 'The stream of the server is cut.', fix: 'This page connects again by itself.' }

/** The state, the verdict, and what to do. */
function sentence({ failure, failures }, live) {
  const trouble = failure ?? (live.state === 'waiting' ? live.failure ?? cut : undefined)
  if (trouble) return ['bad', trouble.message, ` ${trouble.fix || cut.fix}`]
  if (!failures) return ['good', 'All is well:', ' the store answers']
  return ['bad', `${count(failures, 'commit')} failed since the server started.`,
    ' Look for a full disk, or a program that locks the file; the log says which.']
}

function drawHealth(section, facts, live) {
  const [state, verdict, text] = facts.isComplete ? sentence(facts, live) : ['', 'Asking the server…', '']
  section.className = `health wide ${state}`
  // The live region says a sentence once; the time beside it moves in silence.
  if (section.dataset.said !== verdict + text) {
    section.dataset.said = verdict + text
    section.replaceChildren(h('span', { class: 'dot', 'aria-hidden': 'true' }),
      h('p', {}, h('span', { 'aria-live': 'polite' }, h('strong', {}, verdict), text), h('span', { class: 'last' })))
  }
  const last = live.revisions?.[0]?.committed
  const commit = state === 'good' && last ? [', last commit ', time(last)] : []
  section.querySelector('.last').replaceChildren(...commit)
}

function drawNeeds(section, { conflicts, failures, devices, isComplete }) {
  const items = []
  if (failures) items.push(['bad', failures, 'since start', a(link('health'), 'commits that failed')])
  if (conflicts?.length) {
    const named = ({ table, key, rule }) => `${table} ${key ?? ''} (${rule})`
    const reasons = [...new Set(conflicts.flatMap(set => set.reasons.map(named)))]
    items.push(['warn', conflicts.length, 'last day', [a(link('conflicts'), 'refused change sets'),
      `: ${reasons.slice(0, 3).join(', ')}${reasons.length > 3 ? ' …' : ''}`]])
  }
  const behind = worstFirst((devices ?? []).filter(isBehind))
  if (behind.length) {
    const worst = behind.slice(0, 3).map((device, index) => [index ? ', ' : '', author(device)])
    items.push(['warn', behind.length, `of ${number(devices.length)}`, [a(link('devices'), 'devices'),
      ' more than 1,000 revisions or 7 days behind: ', worst, behind.length > 3 && ' …']])
  }
  const line = ([kind, value, when, text]) =>
    h('li', {}, span(`num ${kind}`, number(value)), dim(when), h('span', {}, text))
  const nothing = isComplete ? 'Nothing. Refused change sets, failed commits and late devices appear here.' : '…'
  section.replaceChildren(h('h2', {}, 'Needs attention'),
    items.length ? lines(items.map(line)) : empty(nothing))
}

function drawLive(section, { revisions, revision = Infinity }) {
  const seen = Number(section.dataset.revision ?? Infinity)
  section.dataset.revision = revision
  section.replaceChildren(h('h2', {}, 'Live'), revisions?.length
    ? lines(revisions.slice(0, 20).map(entry => revisionLine(entry, entry.revision > seen && 'new')))
    : empty(revisions ? 'No revisions yet. They appear here as they commit.' : 'Your token may not see them.'))
}

const rowsOf = table => table.rows?.estimate ?? 0

function drawZone(section, client, live, { devices }) {
  const tables = [...live.tables ?? []].sort((left, right) => rowsOf(right) - rowsOf(left))
  const rows = tables.reduce((sum, table) => sum + rowsOf(table), 0)
  const largest = tables.slice(0, 4).map((table, index) =>
    [index ? ' · ' : '', a(tableLink(table.name), table.name), ` ${number(rowsOf(table))}`])
  const titles = [['Name'], ...['Revision', '≈ Rows', 'Devices'].map(title => [title, { right: true }])]
  section.replaceChildren(h('h2', {}, 'Zone'),
    grid('Zone', titles, [[a(link('tables'), client.zone), ...[live.revision, rows, devices?.length].map(number)]]),
    tables.length ? h('p', { class: 'dim small' }, 'Largest: ', largest) : empty('No tables yet.'))
}

function drawCommits(section, { revisions, hasAll }) {
  section.hidden = !revisions
  const times = (revisions ?? []).map(entry => Date.parse(entry.committed)).filter(Number.isFinite)
  section.replaceChildren(h('h2', {}, 'Commits a minute'), spark(times, hasAll))
}

function drawDevices(section, { devices }) {
  section.hidden = !devices
  const shown = worstFirst(devices ?? []).slice(0, 10)
  section.replaceChildren(h('h2', {}, 'Devices, worst first'),
    shown.length ? grid('Devices', deviceColumns, shown.map(deviceRow)) : empty(noDevices),
    devices?.length > 10 ? h('p', { class: 'small' }, a(link('devices'), `All ${devices.length} devices`)) : '')
}
