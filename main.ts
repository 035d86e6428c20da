/** bidweir: runs the command that the arguments name. */
import { enableCompileCache, flushCompileCache } from 'node:module'
import { argv, exit } from 'node:process'
import { fileURLToPath } from 'node:url'

// A third of a start's CPU is reading and compiling what has not changed since the last one. Where the cache cannot be
// written all goes on without.
enableCompileCache(fileURLToPath(new URL('.cache', import.meta.url)))
const { runCommand } = await import('./service/cli/index.ts')

const code = await runCommand(argv.slice(2))
if (code !== null) exit(code)
// The service runs and exits when it has drained. Written now: a process that is killed would leave no cache.
flushCompileCache()
