import * as z from 'zod'

/** A fraction: 0 to 1, both included. */
const share = z.number().min(0).max(1)
const names = z.array(z.string()).default([])
const cap = z.number().gt(0).nullable().default(null)

/** The `opd` block of one supplier (CONTRACT 2). Absent means OPD is off. */
export const opdSchema = z.strictObject({
  enabled: z
    .union([z.boolean(), z.literal('shadow')])
    .default(false)
    .describe(
      'true: optimize prices. shadow: decide and record, but send every bid at factor 1. false: off.',
    ),
  share: share
    .default(1)
    .describe('Share of auctions that OPD may price, 0 to 1. The rest is treated as in shadow.'),
  mode: z
    .enum(['revenue', 'margin'])
    .default('revenue')
    .describe(
      'Objective. revenue: the largest margin while wins and spend are kept. margin: targetMargin with as many wins as possible.',
    ),
  targetMargin: z
    .number()
    .min(0)
    .lt(1)
    .default(0.15)
    .describe('Margin share to reach, 0 to 1. Read with mode margin only.'),
  minFactor: z
    .number()
    .gt(0)
    .max(1)
    .default(0.7)
    .describe(
      'Smallest factor, 0 to 1: no price is lowered below this share of the inbound price.',
    ),
  explore: share
    .default(0.005)
    .describe(
      'Share of auctions whose factor is drawn at random among the permitted ones, 0 to 1, so that replay can evaluate other prices.',
    ),
  clientFee: z
    .number()
    .min(0)
    .lt(1)
    .default(0)
    .describe(
      'Share of the price that is deducted before optimization, 0 to 1: in_ba = price x (1 - clientFee).',
    ),
  holdout: share
    .default(0.02)
    .describe('Share of auctions that stay at factor 1, 0 to 1, to measure the effect of OPD.'),
  minWinRate: share
    .default(0.97)
    .describe('Least win rate to keep, relative to the holdout, 0 to 1.'),
  minSpend: share.default(0.97).describe('Least spend to keep, relative to the holdout, 0 to 1.'),
  audio: z.boolean().default(false).describe('Whether bids on audio impressions are priced.'),
  internalIds: z
    .boolean()
    .default(false)
    .describe(
      "Whether standalone calls must carry an impid, and id and impid are the supplier's internal ids.",
    ),
  priceDsp: z
    .boolean()
    .default(false)
    .describe(
      'Whether prices are set on the demand side: revenue is then price_dsp of the notice, if it carries one.',
    ),
  deals: z.boolean().default(true).describe('Whether bids with a deal id are priced.'),
  exclude: z
    .strictObject({
      seats: names.describe('Seats whose bids stay unchanged.'),
      publishers: names.describe('Publisher ids whose bids stay unchanged.'),
      domains: names.describe('Site domains whose bids stay unchanged.'),
      apps: names.describe('App bundles whose bids stay unchanged.'),
      adomains: names.describe('Advertiser domains whose bids stay unchanged.'),
      deals: names.describe('Deal ids whose bids stay unchanged.'),
    })
    .prefault({})
    .describe('Bids that OPD leaves unchanged.'),
  caps: z
    .strictObject({
      perBid: cap.describe(
        'Most that OPD takes off the price of one bid: CPM in the base currency. null: no cap.',
      ),
      perDay: cap.describe(
        'Most that OPD takes off the bids that win in one day (UTC): money in the base currency, of all nodes. At the cap, bids keep their price until the day ends. Wins of bids that were sent before still count. null: no cap.',
      ),
    })
    .prefault({})
    .describe('Limits of what OPD takes off.'),
})

export type OpdConfig = z.infer<typeof opdSchema>

const googleKey = z
  .string()
  .regex(/^[A-Za-z0-9+/_-]{42,44}={0,2}$/, { error: '32 bytes in base64' })

/** The `clearing` block of one supplier (CONTRACT 2): limits of the prices in its win notices. */
export const clearingSchema = z
  .strictObject({
    maxOver: z
      .number()
      .min(1)
      .max(1_000_000)
      .default(1.5)
      .describe(
        'Largest cleared price, as a multiple of the outbound price. A notice above it is refused.',
      ),
    encoding: z
      .enum(['plain', 'base64', 'google'])
      .default('plain')
      .describe(
        'How prices are written in notices. plain: a decimal. base64: a decimal in base64 or base64url. google: encrypted as by Google Authorized Buyers, in micros per impression.',
      ),
    keys: z
      .strictObject({
        encryption: googleKey.describe('Encryption key of the account, base64 or base64url.'),
        integrity: googleKey.describe('Integrity key of the account, base64 or base64url.'),
      })
      .optional()
      .describe('Keys of encrypted prices. Required with encoding google.'),
    currency: z
      .string()
      .regex(/^[A-Z]{3}$/)
      .nullable()
      .default(null)
      .describe(
        'Currency of prices in notices, ISO 4217, unless a notice names one as `cur`. null: the currency of the bid.',
      ),
  })
  .refine(({ encoding, keys }) => encoding !== 'google' || keys !== undefined, {
    error: 'clearing.keys, which encoding google needs',
    path: ['keys'],
  })

export type ClearingConfig = z.infer<typeof clearingSchema>

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
