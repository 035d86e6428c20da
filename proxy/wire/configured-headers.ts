/** Headers that a configuration sets or removes in requests to a supplier. */
import { lower } from './headers.ts'

export class ConfiguredHeaders {
  private readonly dropped: ReadonlySet<string>
  private readonly added: readonly string[]

  /**
   * @param removed names, in any case
   * @param added names and values, which replace those of the caller
   */
  constructor(removed: readonly string[], added: Readonly<Record<string, string>>) {
    this.dropped = new Set([...removed, ...Object.keys(added)].map((name) => name.toLowerCase()))
    this.added = Object.entries(added).flat()
  }

  /** @param fields a flat list of names and values */
  apply(fields: readonly string[]): string[] {
    const out: string[] = []
    for (let index = 0; index < fields.length; index += 2)
      if (!this.dropped.has(lower(fields[index]!))) out.push(fields[index]!, fields[index + 1]!)
    out.push(...this.added)
    return out
  }
}

/**
 * null: there is nothing to change.
 *
 * @param config of a supplier: fields to set, names to remove in any case, and files whose text is the value of a field
 */
export function configuredHeaders(config: {
  set: Readonly<Record<string, string>>
  remove: readonly string[]
  secretFrom: Readonly<Record<string, string>>
}): ConfiguredHeaders | null {
  const { remove, set, secretFrom } = config
  const added = { ...set, ...secretFrom }
  return remove.length === 0 && Object.keys(added).length === 0
    ? null
    : new ConfiguredHeaders(remove, added)
}
