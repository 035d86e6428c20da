/** The queries that several panels share. */

export const nodes = 'namespace=~"$namespace",service=~"$service"'
export const ssp = `${nodes},ssp=~"$ssp"`
/** A rate over all nodes. */
export const rate = (name: string, by: string, labels = ssp) =>
  `sum by (${by}) (rate(${name}{${labels}}[$__rate_interval]))`
const quantile = (q: number, name: string, labels = ssp) =>
  `histogram_quantile(${q}, ${rate(`${name}_bucket`, 'le', labels)})`
export const percentiles = (name: string, labels = ssp) => ({
  '50 %': quantile(0.5, name, labels),
  '99 %': quantile(0.99, name, labels),
})
export const perPod = (name: string, labels = nodes) => ({ '{{pod}}': `${name}{${labels}}` })
/** A sum by arm of all nodes over the last hours. */
export const armSum = (name: string, arm: 'optimised' | 'holdout') =>
  `sum by (ssp, mode) (increase(bidweir_arm_${name}_total{${ssp},arm="${arm}"}[6h]))`
/** A sum per bid of the optimised bids divided by that of the holdout, with the bounds of its logarithm. */
export function keptSeries(sum: string, variance: (arm: 'optimised' | 'holdout') => string) {
  const perBid = (arm: 'optimised' | 'holdout') => `${armSum(sum, arm)} / ${armSum('bids', arm)}`
  const ratio = `(${perBid('optimised')}) / (${perBid('holdout')})`
  const width = `exp(1.96 * sqrt(${variance('optimised')} + ${variance('holdout')}))`
  return {
    '{{ssp}} {{mode}}': ratio,
    '{{ssp}} {{mode}} lower': `${ratio} / ${width}`,
    '{{ssp}} {{mode}} upper': `${ratio} * ${width}`,
  }
}
export const marginPerBid = (arm: 'optimised' | 'holdout') =>
  `(${armSum('won_in_price_sum', arm)} - ${armSum('cleared_price_sum', arm)}) / ${armSum('bids', arm)}`
