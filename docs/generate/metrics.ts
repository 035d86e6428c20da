/** The metrics of `/metrics`, from the registry of a service. */
import { code, page, table } from './markdown.ts'

export interface MetricRow {
  name: string
  type: string
  labels: string[]
  help: string
}

const tableOf = (rows: readonly MetricRow[]) =>
  table(
    ['name', 'type', 'labels', 'meaning'],
    [...rows]
      .sort((one, other) => (one.name < other.name ? -1 : 1))
      .map(({ name, type, labels, help }) => [code(name), type, labels.map(code).join(', '), help]),
  )

export function metrics(rows: readonly MetricRow[]): string {
  const own = rows.filter(({ name }) => name.startsWith('bidweir_'))
  const ofProcess = rows.filter(({ name }) => !name.startsWith('bidweir_'))
  return page(
    'Metrics',
    '`GET /metrics` on the admin listener. Durations are in seconds, sizes in bytes, prices in CPM of the base currency.',
    tableOf(own),
    '## The process',
    tableOf(ofProcess),
  )
}
