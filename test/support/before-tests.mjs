/** Loaded before each test file: it takes away what the runner adds and no test needs. */
import hooks from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

// The runner follows each promise and each handle with an async hook, to say in which test an error escaped: an eighth
// of the CPU of a test with many requests. Without it such an error ends the file, which fails.
const { createHook } = hooks
const idle = { enable: () => idle, disable: () => idle }
hooks.createHook = (callbacks) => {
  const isOfRunner = new Error().stack?.includes('/async-hook-domain/')
  return isOfRunner ? idle : createHook(callbacks)
}
syncBuiltinESMExports()

// The runner gives its loader to each child process: it slows the start by 0.05 s, and ends the process at signals that
// Node ignores. It wraps the functions that spawn (package process-on-spawn) if no other module has wrapped them.
const wrapped = Symbol.for('process-on-spawn@*:singletonId')
globalThis[wrapped]?.unwrap()
globalThis[wrapped] = { version: 1, listeners: [], unwrap() {} }
delete process.env.NODE_OPTIONS
