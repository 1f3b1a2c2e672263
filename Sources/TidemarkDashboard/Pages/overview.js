// The first screen: health, needs, live revisions, the zone, devices.

import {
  a, author, count, dim, empty, grid, h, isMore, number, rowCount, rowsOf, size, span, summary, time
} from './dom.js'
import { metrics } from './metrics.js'
import { link, optional, tableLink } from './route.js'
import { spark } from './spark.js'

const lagMax = 1000
const refusalsMax = 100
const zonesMax = 20
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
  await ask(client, facts)
  facts.isComplete = true
  draw()
  live.addEventListener('change', draw, { signal })
  // Once a minute, while somebody looks.
  const timer = setInterval(() => { if (!document.hidden) ask(client, facts).then(draw) }, 60_000)
  signal.addEventListener('abort', () => clearInterval(timer))
  live.fill(500).then(draw, () => {})
}

async function ask(client, facts) {
  try {
    await client.request('GET', '/readyz')
    const [answer, refused, page, mine] = await Promise.all([optional(client.read('devices')),
      optional(client.read('conflicts', { limit: refusalsMax })), metrics(client),
      client.token && optional(client.read('/zones'))])
    facts.devices = answer?.devices
    // A client without rows has its answer; only a device keeps what was refused.
    facts.conflicts = refused?.conflicts.filter(set => set.device && Date.now() - Date.parse(set.time) < day)
    facts.failures = page?.total('tidemark_commit_failures_total')
    facts.disk = page && [page.total('tidemark_disk_free_bytes'), page.total('tidemark_disk_size_bytes')]
    const others = (mine?.zones ?? []).filter(({ zone }) => zone !== client.zone).slice(0, zonesMax)
    const asked = others.map(zone => client.read(`/zones/${encodeURIComponent(zone.zone)}/revisions`, { limit: 1 })
      .then(() => undefined, error => error.status >= 500 && { ...zone, error }))
    facts.zones = (await Promise.all(asked)).filter(Boolean)
    facts.failure = undefined
  } catch (error) { facts.failure = error }
}

export const lines = items => h('ul', { class: 'lines' }, items)

const cut = { message: 'The stream of the server is cut.', fix: 'This page connects again by itself.' }

/** The state, the verdict, and what to do. */
function sentence(facts, live) {
  const trouble = facts.failure ?? (live.state === 'waiting' ? live.failure ?? cut : undefined)
  if (trouble) return ['bad', trouble.message, ` ${trouble.fix || cut.fix}`]
  const items = needs(facts)
  if (items.length) {
    const state = items.some(({ kind }) => kind === 'bad') ? 'bad' : 'warn'
    return [state, 'Running, but:', ` ${items.map(({ text }) => text).join(', ')}`]
  }
  // Who may not see refusals and devices cannot know.
  if (!facts.conflicts || !facts.devices) return ['good', 'The store answers.', ' Your token does not show more']
  return ['good', 'All is well:', ' the store answers, no device of this zone was refused or is far behind']
}

/** What wants somebody: in short, and as a line. */
function needs({ conflicts, failures, devices, disk: [free, all] = [], zones }) {
  const items = []
  const add = (kind, value, name, when, page, ...rest) => {
    const text = name(value === 1 ? '' : 's')
    const line = h('li', {}, span(`num ${kind}`, number(value)), dim(when), h('span', {}, a(link(page), text), rest))
    items.push({ kind, text: `${number(value)} ${text}`, line })
  }
  if (zones?.length) {
    add('bad', zones.length, s => `zone${s} that cannot be served`, 'now', '',
      zones.map(({ zone, title, error }) => ` · ${title || zone}: ${error.message}`))
  }
  if (failures) {
    add('bad', failures, s => `failed commit${s}`, 'since start', 'health',
      ': a full disk, or a program that locks the file; the log says which')
  }
  if (free < all / 20) add('bad', size(free), () => 'left on the disk', 'now', 'health', ` of ${size(all)}`)
  if (conflicts?.length) {
    const named = ({ table, key, rule }) => `${table} ${decodeURIComponent(key ?? '')} (${rule})`
    const reasons = [...new Set(conflicts.flatMap(set => set.reasons.map(named)))]
    add('warn', conflicts.length, s => `refused change set${s}`, 'last day', 'conflicts',
      `: ${reasons.slice(0, 3).join(', ')}${reasons.length > 3 ? ' …' : ''}; each waits on its device`)
  }
  const behind = worstFirst((devices ?? []).filter(isBehind))
  if (behind.length) {
    const worst = behind.slice(0, 3).map((device, index) => [index ? ', ' : '', author(device)])
    add('warn', behind.length, s => `device${s} far behind`, `of ${number(devices.length)}`, 'devices',
      ', more than 1,000 revisions or 7 days: ', worst, behind.length > 3 && ' …')
  }
  return items
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

function drawNeeds(section, facts) {
  const items = needs(facts)
  const nothing = facts.isComplete ? 'Nothing. Refused change sets, failed commits and late devices appear here.' : '…'
  section.replaceChildren(h('h2', {}, 'Needs attention'),
    items.length ? lines(items.map(({ line }) => line)) : empty(nothing))
}

function drawLive(section, { revisions, revision = Infinity }) {
  const seen = Number(section.dataset.revision ?? Infinity)
  section.dataset.revision = revision
  section.replaceChildren(h('h2', {}, 'Live'), revisions?.length
    ? lines(revisions.slice(0, 20).map(entry => revisionLine(entry, entry.revision > seen && 'new')))
    : empty(revisions ? 'The log is empty. Revisions appear here as they commit.' : 'Your token may not see them.'))
}

function drawZone(section, client, live, { devices }) {
  const tables = [...live.tables ?? []].sort((left, right) => rowsOf(right) - rowsOf(left))
  const rows = number(tables.reduce((sum, table) => sum + rowsOf(table), 0)) + (tables.some(isMore) ? '+' : '')
  const largest = tables.slice(0, 4).map((table, index) =>
    [index ? ' · ' : '', a(tableLink(table.name), table.name), ` ${rowCount(table)}`])
  const titles = [['Name'], ...['Revision', 'Rows', 'Devices'].map(title => [title, { right: true }])]
  section.replaceChildren(h('h2', {}, 'Zone'),
    grid('Zone', titles, [[a(link('tables'), client.zone), number(live.revision), rows, number(devices?.length)]]),
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
