/**
 * Writes the compile cache of the service: `node FLAGS compile-cache.mjs DIST FOLDER`, as the user of the image. Modules are
 * loaded one after the other and nothing runs, so that each build writes the same bytes.
 */
import { constants, createRequire, enableCompileCache, flushCompileCache } from 'node:module'
import { join } from 'node:path'

const [dist, folder] = process.argv.slice(2)
// Another folder is in use if NODE_COMPILE_CACHE names one.
const { status, message, directory } = enableCompileCache(folder)
if (status !== constants.compileCacheStatus.ENABLED)
  throw new Error(
    `the compile cache is not written to ${folder}: ${message ?? `it is in ${directory}`}`,
  )
const require = createRequire(import.meta.url)
for (const module of ['cli/index.js', 'cli/start.js', 'service.js', 'default-config.js'])
  require(join(dist, 'service', module))
flushCompileCache()
process.exit(0)
