// The refused change sets: why, and both sides.

import {
  a, author, card, columnOf, columnsOf, count, dim, empty, fields, h, head, number, pager, recordLink, span, time,
  value, words
} from './dom.js'
import { same } from './record.js'
import { link, optional } from './route.js'

export async function show({ client, query }) {
  const before = query.get('before')
  const [page, known] = await Promise.all([client.read('conflicts', { limit: 50, ...before && { before } }),
    optional(client.read('devices'))])
  const devices = new Map((known?.devices ?? []).map(device => [device.device, device]))
  const list = page.conflicts.map(set => refusal(set, devices.get(set.device) ?? set))
  return [head('Conflicts'), list.length ? list : card(empty('No conflicts. Refused change sets appear here.')),
    pager(before && a(link('conflicts'), 'Newest'),
      page.next && a(link('conflicts', { before: page.next }), 'Older →'))].flat()
}

function refusal(set, device) {
  const reason = ({ table, key, columns, rule, message }) => h('li', {}, span('warn', rule), ' ',
    key === undefined ? table : recordLink(table, key), dim(' ', columns?.join(', ')),
    message && [': ', words(message)])
  const base = set.base !== undefined && `, based on revision ${number(set.base)}`
  const next = set.device
    ? ['It waits on this device until somebody decides it there: ', h('code', {}, 'tidemark device conflicts FILE')]
    : 'Nothing waits: the client has heard it.'
  return h('div', { class: 'card stack' },
    h('div', { class: 'head' }, author({ source: 'client', ...device }), dim('was refused ', time(set.time), base)),
    h('ul', {}, set.reasons.map(reason), h('li', { class: 'dim' }, next)),
    (set.records ?? []).map(record => sides(record, set.device ? 'device' : 'client')))
}

/** A record with what each side did to it: first the columns that one of them touched. */
function sides({ table, key, base, mine, theirs }, who) {
  const hasBase = (base ?? null) !== null
  const isSent = mine !== undefined
  const known = (side, name) => (side ?? null) !== null && name in side
  const changed = (side, name) => known(side, name) && !(known(base, name) && same(base[name], side[name]))
  // The key says which record it is; no side changes it.
  const isKey = name => known(mine, name) && !known(base, name) && (theirs ? !known(theirs, name) : hasBase)
  const all = columnsOf(mine, theirs, base).filter(name => !isKey(name))
  const touched = all.filter(name => changed(mine, name) || known(base, name) && changed(theirs, name))
  const cell = (side, name, isIt) => h('td', { class: isIt && 'touched' },
    isIt || known(side, name) && !known(base, name) ? value(side[name])
      : dim(side === null ? 'no record' : 'unchanged'))
  const atBase = name => known(base, name) ? value(base[name])
    : dim(hasBase || base !== null && theirs ? 'unknown' : 'no record')
  const row = name => [columnOf(name), h('td', {}, atBase(name)), isSent && cell(mine, name, changed(mine, name)),
    cell(theirs, name, known(base, name) && changed(theirs, name))]
  const titles = ['Column', 'Base', isSent && (who === 'device' ? 'Device' : 'Client'), 'Server'].filter(Boolean)
  const part = names => fields(`${table} ${key}`, titles, names.map(row))
  const others = all.filter(name => !touched.includes(name))
  const did = isSent ? `the ${who} ${mine === null ? 'deletes' : hasBase ? 'changes' : 'writes'} it` : 'goes with these'
  const has = theirs === null ? ', the server has no such record' : ''
  return h('div', {}, h('h2', {}, recordLink(table, key), dim(` ${did}${has}`)),
    touched.length > 0 && part(touched), others.length > 0 && h('details', {},
      h('summary', {}, count(others.length, touched.length ? 'other column' : 'column')), part(others)))
}
