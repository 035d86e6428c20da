/** Without WebAssembly the reference reads all documents: every acceptance vector passes. */
import t from 'tap'

Reflect.deleteProperty(globalThis, 'WebAssembly')
const { indexDocument } = await import('../../../opd/json/index-memory.ts')
t.equal(indexDocument(Buffer.from('{}')), false)
await import('../rewrite/vectors.test.ts')
