/**
 * Writes the compile cache of the service: `node FLAGS compile-cache.mjs DIST FOLDER`, as the user of the image. Modules are
 * loaded one after the other and nothing runs, so that each build writes the same bytes.
 */
import { createRequire, enableCompileCache, flushCompileCache } from 'node:module'
import { join } from 'node:path'

const [dist, folder] = process.argv.slice(2)
enableCompileCache(folder)
const require = createRequire(import.meta.url)
for (const module of ['cli/index.js', 'cli/start.js', 'service.js', 'default-config.js'])
  require(join(dist, 'service', module))
flushCompileCache()
process.exit(0)
