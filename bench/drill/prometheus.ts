/** A Prometheus with the alerts of the project, and the panels of its dashboards as a board shows them. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { stringify } from 'yaml'
import { startProgram } from '../harness/child.ts'

const chart = fileURLToPath(new URL('../../charts/bidweir/', import.meta.url))
const rules = join(chart, 'files/alerts.yaml')

interface Alert {
  name: string
  state: 'pending' | 'firing'
}

export interface Sample {
  metric: Record<string, string>
  value: number
}

/** The queries of a panel, by its title. */
function panelQueries(title: string): string[] {
  const folder = join(chart, 'dashboards')
  for (const name of readdirSync(folder)) {
    const { panels } = JSON.parse(readFileSync(join(folder, name), 'utf8')) as {
      panels: { title: string; targets?: { expr: string }[] }[]
    }
    const panel = panels.find((panel) => panel.title === title)
    if (panel !== undefined) return (panel.targets ?? []).map(({ expr }) => expr)
  }
  throw new Error(`no dashboard has the panel "${title}"`)
}

/** `interval`: seconds between two scrapes and two evaluations. `pods`: ports of `/metrics` by pod. */
export async function startPrometheus(interval: number, pods: Readonly<Record<string, number>>) {
  const static_configs = Object.entries(pods).map(([pod, port]) => ({
    targets: [`127.0.0.1:${port}`],
    labels: { namespace: 'drill', service: 'bidweir', pod },
  }))
  const config = stringify({
    global: { scrape_interval: `${interval}s`, evaluation_interval: `${interval}s` },
    rule_files: [rules],
    scrape_configs: [{ job_name: 'bidweir', static_configs }],
  })
  const program = await startProgram((folder, port) => {
    const file = join(folder, 'prometheus.yaml')
    writeFileSync(file, config)
    return [
      'prometheus',
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=error',
    ]
  })
  async function get<T>(path: string): Promise<T> {
    const answer = await fetch(`http://127.0.0.1:${program.port}/api/v1/${path}`)
    const { status, error, data } = (await answer.json()) as {
      status: string
      error?: string
      data: T
    }
    if (status !== 'success') throw new Error(`${path}: ${error}`)
    return data
  }
  async function query(expr: string): Promise<Sample[]> {
    const { result } = await get<{
      result: { metric: Record<string, string>; value: [number, string] }[]
    }>(`query?${new URLSearchParams({ query: expr })}`)
    return result.map(({ metric, value }) => ({ metric, value: Number(value[1]) }))
  }
  return {
    query,
    async alerts(): Promise<Alert[]> {
      const { alerts } = await get<{
        alerts: { labels: Record<string, string>; state: Alert['state'] }[]
      }>('alerts')
      return alerts.map(({ labels, state }) => ({ name: labels['alertname']!, state }))
    },
    /** `for` of each alert in seconds. */
    async durations(): Promise<Map<string, number>> {
      const { groups } = await get<{
        groups: { rules: { name: string; type: string; duration: number }[] }[]
      }>('rules')
      return new Map(
        groups.flatMap(({ rules }) =>
          rules
            .filter(({ type }) => type === 'alerting')
            .map(({ name, duration }) => [name, duration] as const),
        ),
      )
    },
    /** The last values of all series of a panel. */
    async panel(title: string): Promise<Sample[]> {
      const queries = panelQueries(title).map((expr) =>
        expr
          .replaceAll('$__rate_interval', `${4 * interval}s`)
          .replaceAll(/\$(namespace|service|ssp)/g, '.*'),
      )
      return (await Promise.all(queries.map(query))).flat()
    },
    [Symbol.asyncDispose]: () => program[Symbol.asyncDispose](),
  }
}
