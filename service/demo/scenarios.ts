/** Suppliers of the demo for which OPD earns nothing, each for another reason. */
import type { ConfigInput } from '../config/schema.ts'
import { demoOpd } from '../default-config.ts'

interface Scenario {
  /** Its supplier. */
  name: string
  /** What is wrong, for the terminal. */
  text: string
  /** Added to the URL of the demo supplier. */
  query?: string
  /** The win notice that is sent; null: none. `chance`: from 0 to 1, another one for each notice. */
  notice: (query: URLSearchParams, chance: number) => URLSearchParams | null
}

const without = (query: URLSearchParams, name: string) =>
  new URLSearchParams([...query].filter(([key]) => key !== name))

export const scenarios: Readonly<Record<string, Scenario>> = {
  'no-macro': {
    name: 'Aster Ads',
    text: 'no bid contains the macro',
    query: '?macro=none',
    notice: (query) => query,
  },
  'no-notices': {
    name: 'Borealis Media',
    text: 'nobody reports its wins',
    notice: () => null,
  },
  'refused-notices': {
    name: 'Cinder Exchange',
    text: 'half of its wins are reported without svc_opd',
    notice: (query, chance) => (chance < 0.5 ? without(query, 'svc_opd') : query),
  },
  'wrong-prices': {
    name: 'Delta Network',
    text: 'cleared prices are those of one impression instead of a thousand',
    notice(query) {
      query.set('price', (Number(query.get('price')) / 1000).toFixed(6))
      return query
    },
  },
}

/** The ids of the scenarios that a name selects; `all`: each. */
export const scenariosOf = (name: string | undefined): string[] =>
  name === undefined ? [] : name === 'all' ? Object.keys(scenarios) : [name]

/** Adds a supplier for each scenario. */
export const withScenarios = (
  config: ConfigInput,
  demoUrl: string,
  names: readonly string[],
): ConfigInput => ({
  ...config,
  suppliers: [
    ...config.suppliers!,
    ...names.map((id) => ({
      ...{ id, name: scenarios[id]!.name, account: 'demo', timeout: '250ms', opd: demoOpd },
      endpoints: [`${demoUrl}${scenarios[id]!.query ?? ''}`],
    })),
  ],
})
