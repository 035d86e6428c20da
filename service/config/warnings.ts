/** Warnings about values of a configuration that are valid but rarely intended. */
import { type OpdConfig, opdSchema } from '../../opd/config.ts'
import { endpointOf } from '../../proxy/upstream/config.ts'
import { workerCount } from '../limits.ts'
import type { Config, SupplierConfig } from './schema.ts'

const maxExplore = 0.2
const defaultTargetMargin = opdSchema.parse({}).targetMargin

/** Values of an `opd` block that are valid but rarely intended. */
const opdWarnings: readonly [(opd: OpdConfig) => boolean, string][] = [
  [
    ({ holdout, minWinRate, minSpend }) => holdout === 0 && (minWinRate > 0 || minSpend > 0),
    'holdout is 0: minWinRate and minSpend have nothing to be measured against',
  ],
  [
    ({ mode, targetMargin }) => mode === 'revenue' && targetMargin !== defaultTargetMargin,
    'targetMargin is set, but only mode: margin reads it',
  ],
  [
    ({ explore }) => explore > maxExplore,
    `explore is above ${maxExplore}: that share of bids is priced at random`,
  ],
  [({ share }) => share === 0, 'share is 0: no bid is priced'],
]

const opdWarningsOf = ({ id, opd }: SupplierConfig) =>
  opd === undefined || opd.enabled === false
    ? []
    : opdWarnings.filter(([meets]) => meets(opd)).map(([, text]) => `suppliers ${id}: opd.${text}`)

const tlsWarningsOf = ({ id, endpoints, tls }: SupplierConfig) =>
  tls === undefined || endpoints.some((endpoint) => endpointOf(endpoint).url.startsWith('https:'))
    ? []
    : [`suppliers ${id}: tls has no effect: no endpoint begins with https://`]

/** A limit below the number of processes is not kept: each of them has 1 at least. */
const limitWarningsOf = ({ proxy, suppliers }: Config, count = workerCount(proxy)) =>
  suppliers.flatMap(({ id, maxInFlight }) =>
    maxInFlight !== 'auto' && maxInFlight < count
      ? [`suppliers ${id}: maxInFlight is less than proxy.workers: ${count} are permitted`]
      : [],
  )

const sealedWarningsOf = ({ models, opd }: Config) =>
  models.from !== null && opd.decisionLog === null
    ? ['models.from without opd.decisionLog: no win of this node can be attributed']
    : []

/**
 * What is valid and probably not meant, one sentence each.
 *
 * @param config a valid configuration
 */
export function warningsOf(config: Config): string[] {
  const isPublic = !/^(127\.|localhost:|\[::1\])/.test(config.proxy.listen)
  const routes = config.suppliers.flatMap(({ id, endpoints, callers, opd }) => {
    if (endpoints.length === 0)
      return opd === undefined
        ? [`suppliers ${id}: neither endpoints nor opd: nothing can be asked of it`]
        : []
    const { cidrs, headers, subjects } = callers
    const anyone = cidrs.length === 0 && Object.keys(headers).length === 0 && subjects.length === 0
    return isPublic && anyone
      ? [`suppliers ${id}: callers is empty and proxy.listen is not loopback: anyone may send bids`]
      : []
  })
  return [
    ...routes,
    ...config.suppliers.flatMap(opdWarningsOf),
    ...config.suppliers.flatMap(tlsWarningsOf),
    ...limitWarningsOf(config),
    ...sealedWarningsOf(config),
  ]
}
