import * as z from 'zod'

/** A share of something: 0 to 1, both ends included. */
const share = z.number().min(0).max(1)
const names = z.array(z.string()).default([])

/** The `opd` block of one supplier (CONTRACT 2). Absent means OPD is off. */
export const opdSchema = z.strictObject({
  enabled: z.union([z.boolean(), z.literal('shadow')]).default(false),
  share: share.default(1),
  mode: z.enum(['revenue', 'margin']).default('revenue'),
  targetMargin: z.number().min(0).lt(1).default(0.15),
  minFactor: z.number().gt(0).max(1).default(0.7),
  explore: share.default(0.005),
  clientFee: z.number().min(0).lt(1).default(0),
  holdout: share.default(0.02),
  minWinRate: share.default(0.97),
  minSpend: share.default(0.97),
  audio: z.boolean().default(false),
  internalIds: z.boolean().default(false),
  priceDsp: z.boolean().default(false),
  deals: z.boolean().default(true),
  exclude: z
    .strictObject({
      seats: names,
      publishers: names,
      domains: names,
      apps: names,
      adomains: names,
      deals: names,
    })
    .prefault({}),
})

export type OpdConfig = z.infer<typeof opdSchema>

/** The `clearing` block of one supplier (CONTRACT 2): the prices in its notices. */
export const clearingSchema = z.strictObject({
  /** A cleared price above this many times out_ba is refused. */
  maxOver: z.number().min(1).max(1_000_000).default(1.5),
})

export type ClearingConfig = z.infer<typeof clearingSchema>

/** Of decisions whose supplier the file no longer names. */
export const clearingDefaults: ClearingConfig = clearingSchema.parse({})

/** One supplier as the price engine sees it. */
export interface Integration {
  id: string
  /** null: no `opd` block. 'invalid': the block has faults, so OPD is off and that is counted. */
  opd: OpdConfig | 'invalid' | null
  /** Which `event` of a notice comes: `both` means win teaches and billing is money. */
  notices: 'win' | 'billing' | 'both'
  /** Absent: the defaults. */
  clearing?: ClearingConfig
}

/** A key of the context: 32 bytes, and the id written in front of what it encoded. */
export interface ContextKey {
  id: number
  secret: Uint8Array
}
