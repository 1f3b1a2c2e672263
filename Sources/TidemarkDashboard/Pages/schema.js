// The tables with their columns, references and policies.

import { a, card, count, dim, empty, grid, h, head, number, span, words } from './dom.js'
import { link, tableLink } from './route.js'

export async function show({ client }) {
  const { tables, revision } = await client.read('tables')
  return [head('Schema', dim(`${count(tables.length, 'table')} at revision ${number(revision)}`),
    // A browser that follows a link sends no token.
    !client.token && span('push', a(`${client.url}/zones/${encodeURIComponent(client.zone)}/openapi.json`,
      'openapi.json'))),
  tables.length ? tables.map(part) : card(empty('No tables.'))].flat()
}

function columns(table) {
  const titles = [['Column', { name: true }], ['Type'], ['NULL'], ['Policy'], ['Refers to', { name: true }]]
  const target = ({ parent, parentColumns, onDelete }) => [a(tableLink(parent), parent),
    dim(` ${parentColumns.join(', ')} ${onDelete === 'NO ACTION' ? '' : onDelete.toLowerCase()} `)]
  return grid(`Columns of ${table.name}`, titles, table.columns.map(({ name, type, notNull }) => [
    [words(name), table.key.includes(name) && dim(' key')], h('code', {}, type ?? ''),
    notNull || table.key.includes(name) ? 'no' : 'yes', table.policies?.[name] ?? '',
    table.references.filter(one => one.columns.includes(name)).map(target)]))
}

const part = table => card(h('div', { class: 'head' }, h('h2', {}, a(tableLink(table.name), words(table.name))),
  dim(`policy ${table.policy}`), span('push', a(link('revisions', { table: table.name }), 'revisions'))),
h('details', { open: table.columns.length < 31 }, h('summary', {}, count(table.columns.length, 'column')),
  columns(table)))
