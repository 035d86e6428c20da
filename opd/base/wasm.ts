/** WebAssembly modules, which `npm run build:wasm` writes as base64. */

// The types of Node.js have none for WebAssembly.
declare const WebAssembly: {
  Module: new (code: Uint8Array) => object
  Instance: new (module: object) => { exports: unknown }
}

/**
 * Compiles a module.
 *
 * @param code - the module in base64
 * @returns what makes an instance with memory of its own, and returns its exports
 * @throws CompileError: it is no module
 */
export function moduleOf<Exports>(code: string): () => Exports {
  const module = new WebAssembly.Module(Buffer.from(code, 'base64'))
  return () => new WebAssembly.Instance(module).exports as Exports
}
