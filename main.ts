/** bidweir: one table of commands; each is a line away from what it does. */
import { enableCompileCache, flushCompileCache } from 'node:module'
import { argv, exit, stderr, stdout } from 'node:process'
import { fileURLToPath } from 'node:url'

// A third of a start's CPU is reading and compiling what has not changed since the last one. Written at once: a
// process that is killed would leave none to the next. Where it cannot be written all goes on without.
enableCompileCache(fileURLToPath(new URL('.cache', import.meta.url)))
const { commands } = await import('./commands.ts')
flushCompileCache()

const [name = 'start', ...rest] = argv.slice(2)
const command = Object.hasOwn(commands, name) ? commands[name] : undefined

if (command === undefined) {
  const known = Object.entries(commands).map(([each, { usage }]) => `  bidweir ${each} ${usage}\n`)
  const asked = name === 'help' || name === '--help'
  const out = asked ? stdout : stderr
  out.write(`${asked ? '' : `bidweir: no such command: ${name}\n`}usage:\n${known.join('')}`)
  exit(asked ? 0 : 64)
}

const code = await command.run(rest)
// A service that runs says so by null: it exits when it has drained.
if (code !== null) exit(code)
