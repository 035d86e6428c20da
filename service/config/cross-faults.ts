/** Faults between the keys of a configuration. */
import { adminSchema, storeSchema } from '../../admin/config.ts'
import { proxySchema } from '../../proxy/config.ts'
import { contextTtl } from './schema.ts'
import { pathText } from './values.ts'

interface CrossFault {
  path: PropertyKey[]
  found: string
  allowed: string
}

/** Faults of rows whose id another row above has. */
function repeatedIds(rows: unknown, path: string[]): CrossFault[] {
  if (!Array.isArray(rows)) return []
  const seen = new Set<unknown>()
  const faults: CrossFault[] = []
  for (const [index, row] of rows.entries()) {
    const id = (row as { id?: unknown } | null)?.id
    const found = `${JSON.stringify(id)}, which is used above`
    if (seen.has(id))
      faults.push({ path: [...path, index, 'id'], found, allowed: 'an id of its own' })
    else if (id !== undefined) seen.add(id)
  }
  return faults
}

/**
 * Suppliers whose `callers.subjects` nobody can meet.
 * @param certifies whether there is `proxy.tls.clientCa`
 */
export function uncertifiedCallers(rows: unknown, certifies: boolean): CrossFault[] {
  if (!Array.isArray(rows) || certifies) return []
  return rows.flatMap((row, index): CrossFault[] => {
    const subjects = (row as { callers?: { subjects?: unknown } } | null)?.callers?.subjects
    if (!Array.isArray(subjects) || subjects.length === 0) return []
    return [
      {
        path: ['suppliers', index, 'callers', 'subjects'],
        found: 'subjects without proxy.tls.clientCa',
        allowed: 'none, or proxy.tls.clientCa: the authorities that sign certificates of callers',
      },
    ]
  })
}

const anyHost = new Set(['', '0.0.0.0', '[::]'])

/** A host and its port; null: not an address, which the schema reports, or the system chooses the port. */
function addressOf(listen: unknown): { host: string; port: number } | null {
  if (typeof listen !== 'string') return null
  const colon = listen.lastIndexOf(':')
  const port = Number(listen.slice(colon + 1))
  return colon < 0 || !(port > 0) ? null : { host: listen.slice(0, colon), port }
}

/** Faults of listeners whose address a listener above has. */
function repeatedAddresses(listeners: [name: string, listen: unknown][]): CrossFault[] {
  const seen: { name: string; host: string; port: number }[] = []
  const faults: CrossFault[] = []
  for (const [name, listen] of listeners) {
    const address = addressOf(listen)
    if (address === null) continue
    const { host, port } = address
    const other = seen.find(
      (other) =>
        other.port === port &&
        (other.host === host || anyHost.has(other.host) || anyHost.has(host)),
    )
    if (other === undefined) seen.push({ name, host, port })
    else
      faults.push({
        path: [name, 'listen'],
        found: `${host}:${port}, which ${other.name}.listen uses`,
        allowed: 'an address of its own',
      })
  }
  return faults
}

/** Faults of a node whose models come from a file. */
function sealedFaults(valueAt: (...path: string[]) => unknown): CrossFault[] {
  const rules: [path: string[], isFault: boolean, allowed: string][] = [
    [
      ['node', 'role'],
      valueAt('node', 'role') !== 'serve',
      'serve: a node with models.from does not train',
    ],
    [
      ['store', 'redis'],
      valueAt('store', 'redis') != null,
      'null: the models come from models.from',
    ],
    [
      ['opd', 'keys'],
      valueAt('opd', 'keys') === undefined,
      'the keys of the node that reads its decision log',
    ],
    [
      ['proxy', 'workers'],
      ![undefined, 1].includes(valueAt('proxy', 'workers') as number),
      '1 with models.from',
    ],
  ]
  return rules
    .filter(([, isFault]) => isFault)
    .map(([path, , allowed]) => {
      const value = valueAt(...path)
      const found = value === undefined ? 'nothing' : `${String(value)} with models.from`
      return { path, found, allowed }
    })
}

/** Faults of secrets that are written into the file. */
function writtenSecrets(suppliers: unknown, external: ReadonlyMap<string, string>): CrossFault[] {
  if (!Array.isArray(suppliers)) return []
  return suppliers.flatMap((supplier, index) => {
    const { headers } = (supplier ?? {}) as { headers?: { secretFrom?: unknown } | null }
    const values = headers?.secretFrom
    if (values === null || typeof values !== 'object') return []
    return Object.keys(values)
      .map((name) => ['suppliers', index, 'headers', 'secretFrom', name])
      .filter((path) => !external.has(pathText(path)))
      .map((path) => ({
        ...{ path, found: 'a value' },
        allowed: 'a reference to the secret, {file: PATH} or ${NAME}',
      }))
  })
}

/**
 * @param external sources of the values that are not in the file, by path
 * @param certifies whether there is `proxy.tls.clientCa`
 */
export const supplierFaults = (
  suppliers: unknown,
  external: ReadonlyMap<string, string>,
  certifies: boolean,
): CrossFault[] => [
  ...repeatedIds(suppliers, ['suppliers']),
  ...writtenSecrets(suppliers, external),
  ...uncertifiedCallers(suppliers, certifies),
]

/**
 * Checks the raw value, so that these faults are reported together with all others.
 * @param external sources of the values that are not in the file, by path
 */
export function crossFaults(root: unknown, external: ReadonlyMap<string, string>): CrossFault[] {
  const valueAt = (...path: string[]) =>
    path.reduce<unknown>((value, key) => (value as Record<string, unknown> | null)?.[key], root)
  const hasRedis = valueAt('store', 'redis') != null
  const shared = hasRedis || /^postgres/.test(String(valueAt('store', 'database')))
  const faults = [
    ...supplierFaults(valueAt('suppliers'), external, valueAt('proxy', 'tls', 'clientCa') != null),
    ...repeatedIds(valueAt('opd', 'keys'), ['opd', 'keys']),
    ...repeatedAddresses([
      ['proxy', valueAt('proxy', 'listen') ?? proxySchema.shape.listen.parse(undefined)],
      ['admin', valueAt('admin', 'listen') ?? adminSchema.shape.listen.parse(undefined)],
      ['notices', valueAt('notices', 'listen')],
      ['agent', valueAt('agent', 'listen')],
    ]),
  ]
  if (shared && valueAt('opd', 'keys') === undefined)
    faults.push({
      path: ['opd', 'keys'],
      found: 'nothing',
      allowed: 'at least one key where Redis or PostgreSQL is configured: the nodes share it',
    })
  const role = valueAt('node', 'role')
  const isSealed = valueAt('models', 'from') != null
  if ((role === 'serve' || role === 'train') && !hasRedis && !isSealed)
    faults.push({
      path: ['node', 'role'],
      found: `${role} without store.redis`,
      allowed: 'all, or store.redis: nodes share the models through it',
    })
  if (isSealed) faults.push(...sealedFaults(valueAt))
  const serverPort = process.env['SERVER_PORT'] ?? ''
  const isDefault = valueAt('agent') != null && valueAt('agent', 'listen') === undefined
  if (
    isDefault &&
    serverPort !== '' &&
    !(/^\d{1,5}$/.test(serverPort) && Number(serverPort) < 65_536)
  )
    faults.push({
      path: ['agent', 'listen'],
      found: `nothing, and SERVER_PORT is ${JSON.stringify(serverPort)}`,
      allowed: 'host:port, or a port in SERVER_PORT',
    })
  const days = Number(
    valueAt('store', 'retentionDays') ?? storeSchema.shape.retentionDays.parse(undefined),
  )
  const ttl = contextTtl.safeParse(valueAt('opd', 'contextTtl'))
  if (ttl.success && days * 86_400_000 < ttl.data)
    faults.push({
      path: ['store', 'retentionDays'],
      found: `${days} days, less than opd.contextTtl`,
      allowed: 'at least opd.contextTtl: a win that may be reported again has its row',
    })
  const base = valueAt('currency', 'base') ?? 'USD'
  let rates = valueAt('currency', 'rates')
  if (typeof rates === 'string') rates = parsedOrNull(rates)
  const ratesBase = (rates as { base?: unknown } | null | undefined)?.base
  if (typeof ratesBase === 'string' && ratesBase !== base)
    faults.push({
      path: ['currency', 'rates'],
      found: `rates with base ${ratesBase}`,
      allowed: `rates with currency.base (${String(base)})`,
    })
  return faults
}

/** null if the text is not JSON; the schema reports that. */
function parsedOrNull(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
