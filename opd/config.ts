import * as z from 'zod'

/** A fraction: 0 to 1, both included. */
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

/** The `clearing` block of one supplier (CONTRACT 2): limits of the prices in its win notices. */
export const clearingSchema = z.strictObject({
  /** A cleared price above `maxOver` times out_ba is refused. */
  maxOver: z.number().min(1).max(1_000_000).default(1.5),
})

type ClearingConfig = z.infer<typeof clearingSchema>

/** For decisions of suppliers that are no longer configured. */
export const clearingDefaults: ClearingConfig = clearingSchema.parse({})

/** The configuration of one supplier in the price engine. */
export interface Integration {
  id: string
  /** null: no `opd` block. 'invalid': the block is faulty, so OPD is off, and responses are counted. */
  opd: OpdConfig | 'invalid' | null
  /** The events that win notices report. `both`: the win trains the model, and billing is money. */
  notices: 'win' | 'billing' | 'both'
  /** Absent: `clearingDefaults`. */
  clearing?: ClearingConfig
}

/** A context key: 32 bytes, and its id, which contexts contain in plain. */
export interface ContextKey {
  id: number
  secret: Uint8Array
}
