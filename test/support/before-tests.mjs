/**
 * Loaded before a test. The runner follows each promise and each handle with an async hook, to say in which test an
 * error escaped: an eighth of the CPU of a test with many requests. Without it such an error ends the file, which fails.
 */
import hooks from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

const { createHook } = hooks
const idle = { enable: () => idle, disable: () => idle }
hooks.createHook = (callbacks) => {
  const isOfRunner = new Error().stack?.includes('/async-hook-domain/')
  return isOfRunner ? idle : createHook(callbacks)
}
syncBuiltinESMExports()
