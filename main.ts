/** bidweir: runs the command that the arguments name. */
import { enableCompileCache, flushCompileCache } from 'node:module'
import process, { argv, exit } from 'node:process'
import { fileURLToPath } from 'node:url'

// Without the cache a third of a start's CPU is spent on compiling unchanged code. If its folder cannot be written, nothing
// is cached.
enableCompileCache(fileURLToPath(new URL('.cache', import.meta.url)))
// Node ends at SIGHUP without a handler; the one that reloads exists neither during the start nor during the drain.
if (argv[2] === 'start' && argv.some((word) => /^--config(=|$)/.test(word)))
  process.on('SIGHUP', () => {})
const { runCommand } = await import('./service/cli/index.ts')

const code = await runCommand(argv.slice(2))
if (code !== null) exit(code)
// The service runs on. The cache is written now because a process that is killed writes none.
flushCompileCache()
