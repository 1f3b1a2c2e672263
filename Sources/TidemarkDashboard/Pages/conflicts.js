// The refused change sets: why, and both sides.

import { keyPath } from '../client/tidemark.js'
import {
  a, author, card, columnsOf, dim, empty, fields, h, head, number, pager, recordLink, span, time, value, words
} from './dom.js'
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
    key === undefined ? table : recordLink(table, keyPath(key)), dim(' ', columns?.join(', ')),
    message && [': ', words(message)])
  const base = set.base !== undefined && `, based on revision ${number(set.base)}`
  return h('div', { class: 'card stack' }, h('div', { class: 'head' }, author(device), dim(time(set.time), base)),
    h('ul', {}, set.reasons.map(reason)), (set.records ?? []).map(sides))
}

function sides({ table, key, base, mine, theirs }) {
  const cell = (side, column, kind) =>
    h('td', { class: kind }, side === null ? dim('not there') : side && column in side && value(side[column]))
  const hasMine = mine !== undefined
  const titles = ['Column', base && 'Base', hasMine && 'Mine: the device', 'Theirs: the server'].filter(Boolean)
  return fields(table, titles, columnsOf(mine, theirs).map(column => [column, base && cell(base, column),
    hasMine && cell(mine, column, 'before'), cell(theirs, column, 'after')]))
}
