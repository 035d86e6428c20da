/**
 * Imported before a service: takes the code of spans out of the sources as they load. With `?keep` it leaves them: a
 * source that a hook has loaded may be compiled otherwise, so both services of the comparison have the hook.
 */
import { registerHooks } from 'node:module'

const replaced: readonly [file: string, code: string, by: string][] = [
  [
    '/proxy/exchange/exchange.ts',
    'if (this.traced !== null) this.trace(this.traced, outcome, now)',
    '',
  ],
  [
    '/proxy/exchange/exchange.ts',
    'this.traced = context.tracer === null ? null : inbound.head.fields',
    'this.traced = null',
  ],
]

const keep = new URL(import.meta.url).search === '?keep'

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context)
    const found = replaced.find(([file]) => url.endsWith(file))
    if (found === undefined) return loaded
    const [file, code, by] = found
    const source = String(loaded.source)
    if (!source.includes(code)) throw new Error(`${file} has no ${code}`)
    return { ...loaded, source: source.replace(code, keep ? code : by) }
  },
})
