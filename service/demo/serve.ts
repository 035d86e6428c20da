/** The demo supplier as a program of its own: `node serve.ts [HOST [PORT]]`, until a signal ends it. */
import { createDemoSupplier } from './supplier.ts'

const [host, port = '9090'] = process.argv.slice(2)
const supplier = await createDemoSupplier(host, Number(port))
// Before the address is printed: its reader may send a signal at once.
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => supplier.close())
process.stdout.write(`${JSON.stringify({ msg: 'demo supplier', url: supplier.url })}\n`)
