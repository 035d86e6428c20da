/** Imported before a program: says on stderr, at its end, which packages it loaded. */
import { registerHooks } from 'node:module'

const packages = new Set<string>()
registerHooks({
  load(url, context, next) {
    const name = /\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1]
    if (name !== undefined) packages.add(name)
    return next(url, context)
  },
})
process.on('exit', () => process.stderr.write([...packages].sort().join(' ')))
