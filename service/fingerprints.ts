/** Fingerprints of what must be equal on all nodes: the context keys, and the configuration but for what belongs to a node. */
import { createHash, createHmac } from 'node:crypto'
import type { Fingerprint, Fingerprints } from '../admin/fleet/fingerprints.ts'
import { createSlices } from '../opd/base/slices.ts'
import type { KeyRows } from './bid-path.ts'
import { withoutSecrets } from './config/hidden.ts'
import type { Config, SupplierConfig } from './config/schema.ts'

/** Characters of a check value: 66 bits. */
const length = 11

/** JSON whose text does not depend on the order of keys. */
const textOf = (value: unknown): string =>
  JSON.stringify(value, (_key, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([one], [other]) => (one < other ? -1 : 1)))
      : part,
  ) ?? 'undefined'

const checkOf = (value: unknown): string =>
  createHash('sha256').update(textOf(value)).digest('base64url').slice(0, length)

const fingerprintOf = (values: Record<string, string>): Fingerprint => ({
  digest: checkOf(values),
  values,
})

/** A code that only the key makes, so that it reveals nothing of the key. The first key encodes: its place counts. */
const keyValues = (keys: KeyRows): Record<string, string> =>
  Object.fromEntries(
    keys.map(({ id, secret }, place) => [
      `key ${id}`,
      createHmac('sha256', Buffer.from(secret, 'base64url'))
        .update(`bidweir: check value of key ${id} in place ${place}`)
        .digest('base64url')
        .slice(0, length),
    ]),
  )

/** Leaves of a configuration by their path. An array is one leaf. */
function* leavesOf(value: unknown, path: string): Generator<[path: string, leaf: unknown]> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) yield [path, value]
  else for (const [key, part] of Object.entries(value)) yield* leavesOf(part, `${path}.${key}`)
}

/** What may not differ, apart from suppliers. Addresses, limits, folders, roles and the log belong to a node. */
function commonParts({ opd, currency, admin, store, events }: Config) {
  const { keys, decisionLog, ...pricing } = opd
  return {
    opd: pricing,
    currency,
    admin: {
      auth: 'embedded' in admin.auth ? { realm: admin.auth.embedded.realm } : admin.auth,
      impressions: admin.impressions,
    },
    store: { retentionDays: store.retentionDays },
    events: { topic: events?.kafka.topic },
  }
}

/** Endpoints and callers are addresses, which may differ by location, and so may the credentials for them. */
const supplierParts = ({
  endpoints,
  headers,
  tls,
  discovery,
  canary,
  passThrough,
  callers,
  ...parts
}: SupplierConfig) => parts

/** Reads the fingerprints in time slices. A supplier that a reload has not changed is not read again. */
export function fingerprintReader(config: () => Config, keys: () => KeyRows) {
  const known = new WeakMap<SupplierConfig, string>()
  function checkOfSupplier(supplier: SupplierConfig): string {
    const check = known.get(supplier) ?? checkOf(withoutSecrets(supplierParts(supplier)))
    known.set(supplier, check)
    return check
  }
  return async (): Promise<Fingerprints> => {
    const slices = createSlices()
    const current = config()
    const values: Record<string, string> = {}
    for (const [section, parts] of Object.entries(withoutSecrets(commonParts(current))))
      for (const [path, leaf] of leavesOf(parts, section)) values[path] = checkOf(leaf)
    for (const supplier of current.suppliers) {
      values[`suppliers.${supplier.id}`] = checkOfSupplier(supplier)
      await slices.next()
    }
    return { context_keys: fingerprintOf(keyValues(keys())), configuration: fingerprintOf(values) }
  }
}
