/** Checks one supplier that comes through the API: the schema and the words of `bidweir check` (CONTRACT 14). */
import { realpathSync } from 'node:fs'
import * as z from 'zod'
import { escapePart } from '../../admin/http/json-body.ts'
import { uncertifiedCallers } from './cross-faults.ts'
import { type ConfigFault, faultsOf } from './faults.ts'
import type { FileVersions } from './files.ts'
import { type SupplierConfig, supplierSchema } from './schema.ts'
import {
  coerce,
  type Expansion,
  expand,
  isReference,
  type Path,
  pathOf,
  pathText,
} from './values.ts'

export interface CheckedBlock {
  /** null if there is a fault outside of the `opd` block. */
  supplier: SupplierConfig | null
  /** Paths begin at the supplier: `opd.minFactor`. */
  faults: ConfigFault[]
  /** The files that it names. */
  files: FileVersions
}

/** What suppliers of the API may refer to. */
export interface ReferenceRules {
  /** Folder of relative paths, as for the configuration file. */
  base: string
  /** Whether a file is one of the node itself, which a supplier must not read. */
  isOwn(file: string): boolean
  /** Whether the node verifies certificates of callers, which `callers.subjects` names. */
  certifiesCallers(): boolean
}

/** Below these, files have what the system or the cluster knows of the process. */
const systemFolders = ['/proc', '/sys', '/dev', '/run/secrets/kubernetes.io']

/** @param files those with secrets of the node */
export function referenceRules(
  base: string,
  files: () => Iterable<string>,
  certifiesCallers: () => boolean,
): ReferenceRules {
  const real = (file: string) => {
    try {
      return realpathSync(file)
    } catch {
      return file
    }
  }
  return {
    base,
    certifiesCallers,
    isOwn(file) {
      const target = real(file)
      return (
        systemFolders.some((folder) => target.startsWith(`${folder}/`)) ||
        [...files()].some((file) => real(file) === target)
      )
    },
  }
}

/**
 * Values that are secrets; `*` is any name. A reference anywhere else would let an operator read files and variables of
 * the node, which endpoints, names and answers show.
 */
const secretPlaces: readonly (readonly string[])[] = [
  ['callers', 'headers', '*'],
  ['clearing', 'keys', '*'],
  ['headers', 'secretFrom', '*'],
  ['tls', 'key'],
]
/** Values that are often files, and no secrets. */
const filePlaces: typeof secretPlaces = [
  ['tls', 'ca'],
  ['tls', 'cert'],
]
/** Secrets that are sent to an endpoint, which whoever changes the supplier chooses. */
const sentPlaces: readonly (readonly string[])[] = [['headers', 'secretFrom', '*']]
/** A variable of the node that is sent is meant for suppliers: its name says so. */
const sentVariable = /^\$\{BIDWEIR_SUPPLIER_[A-Za-z0-9_]+\}$/

/** Headers whose values are credentials. History, audit trail and answers show `headers.set`. */
const credentialHeader = /^(proxy-)?authorization$|^cookie$|api-?key|secret|password|token/i
const isCredential = ([group, key, name]: Path) =>
  group === 'headers' && key === 'set' && credentialHeader.test(String(name))

const isOneOf = (places: typeof secretPlaces, path: Path) =>
  places.some(
    (place) =>
      place.length === path.length &&
      place.every((part, index) => part === '*' || part === path[index]),
  )

const maxDepth = 20

/** References outside of the places of secrets, and values in them. */
function* referenceFaults(value: unknown, path: Path = []): Generator<ConfigFault> {
  const reference = isReference(value)
  const fault = (found: string, allowed: string) => ({
    ...{ path: pathText(path), line: null },
    found,
    allowed,
  })
  if (isOneOf(secretPlaces, path)) {
    const isSent = isOneOf(sentPlaces, path)
    const name = isSent ? '${BIDWEIR_SUPPLIER_NAME}' : '${NAME}'
    const allowed = `a reference to the secret, {"file": "PATH"} or "${name}"`
    if (!reference) yield fault('a value', allowed)
    else if (isSent && typeof value === 'string' && !sentVariable.test(value))
      yield fault(value, `${allowed}: the value is sent to the endpoints`)
  } else if (reference) {
    if (!isOneOf(filePlaces, path))
      yield fault('a reference', 'a value: only secrets are references here')
  } else if (isCredential(path)) {
    yield fault('a value', 'a header without a secret; those with one are in headers.secretFrom')
  } else if (typeof value === 'string') {
    if (/\$\{[A-Za-z_][A-Za-z0-9_]*\}/.test(value))
      yield fault('text with a variable', 'a value: only secrets are references here')
  } else if (value !== null && typeof value === 'object' && path.length < maxDepth) {
    const isList = Array.isArray(value)
    for (const [key, inner] of Object.entries(value))
      yield* referenceFaults(inner, [...path, isList ? Number(key) : key])
  }
}

/** Bytes of a file of a secret. All of them are read between two bids. */
const maxSecret = 4096

const rootSchema = z.object({ suppliers: z.array(supplierSchema) })
const prefix = 'suppliers[0]'

/**
 * Checks a supplier of the API as the file's are checked.
 *
 * @param block a value from JSON, not checked yet
 * @param rules which files and variables a supplier of the API may refer to
 * @returns the supplier, null if it has faults; never throws for what the block contains
 */
export function checkBlock(block: unknown, rules: ReferenceRules): CheckedBlock {
  const unsafe = [...referenceFaults(block)]
  const files: FileVersions = new Map()
  if (unsafe.length > 0) return { supplier: null, faults: unsafe, files }
  const external = new Map<string, string>()
  const fromApi = { maxBytes: maxSecret, isOwn: rules.isOwn }
  const expansion: Expansion = {
    ...{ files, nodeFiles: new Set(), faults: [], external, tooDeep: false, fromApi },
  }
  // The place of the supplier in a file: faults and their words are those of a file.
  const root = expand({ suppliers: [block] }, [], rules.base, expansion) as { suppliers: object[] }
  let parsed = rootSchema.safeParse(root)
  if (!parsed.success && coerce(root, parsed.error.issues, expansion.external))
    parsed = rootSchema.safeParse(root)
  const uncertified = uncertifiedCallers(root.suppliers, rules.certifiesCallers())
  const faults = [...expansion.faults, ...uncertified].map(
    ({ path, found, allowed }): ConfigFault => ({
      ...{ path: pathText(path), line: null },
      found,
      allowed,
    }),
  )
  if (!parsed.success) {
    const unset = new Set(faults.map(({ path }) => path))
    const issues = parsed.error.issues.filter(({ path }) => !unset.has(pathText(path)))
    faults.push(...faultsOf(issues, root, expansion.external, () => null))
  }
  for (const fault of faults) fault.path = fault.path.slice(prefix.length).replace(/^\./, '')
  return { supplier: parsed.success ? parsed.data.suppliers[0]! : null, faults, files }
}

/** The JSON pointer of a path such as `opd.exclude.seats[0]`. */
const pointerOf = (path: string): string =>
  pathOf(path)
    .map((part) => `/${escapePart(String(part))}`)
    .join('')

/**
 * The faults of a block as the API answers them.
 *
 * @param block a value from JSON, not checked yet
 * @param rules which files and variables a supplier of the API may refer to
 * @returns a JSON pointer and a sentence each; empty: the block is valid
 */
export const blockFaults = (block: unknown, rules: ReferenceRules) =>
  checkBlock(block, rules).faults.map(({ path, found, allowed }) => ({
    pointer: pointerOf(path),
    detail: `found ${found}, allowed: ${allowed}`,
  }))
