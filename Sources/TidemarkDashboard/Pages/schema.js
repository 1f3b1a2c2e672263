// The tables with their columns, references and policies.

import { a, card, count, dim, empty, finder, grid, h, head, number, span, words } from './dom.js'
import { link, tableLink } from './route.js'

export async function show({ client }) {
  const { tables, revision } = await client.read('tables')
  const cards = tables.map(table => part(table, tables.length < 20 && table.columns.length < 31))
  const texts = tables.map(({ name, columns }) => [name, ...columns.map(column => column.name)].join(' '))
  return [head('Schema', dim(`${count(tables.length, 'table')} at revision ${number(revision)}`),
    // A browser that follows a link sends no token.
    !client.token && span('push', a(`${client.url}/zones/${encodeURIComponent(client.zone)}/openapi.json`,
      'openapi.json'))),
  tables.length ? [finder('table or column', cards.map((one, index) => [one, texts[index]])), cards]
    : card(empty('No tables.'))].flat(2)
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

const part = (table, open) => h('details', { class: 'card', open }, h('summary', {},
  h('strong', {}, words(table.name)), dim(' ', count(table.columns.length, 'column'), `, policy ${table.policy}`)),
h('p', { class: 'bar' }, a(tableLink(table.name), 'rows'), a(link('revisions', { table: table.name }), 'revisions')),
columns(table))
