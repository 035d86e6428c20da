/** The labels of the image by which an exchange finds the agent in it (Agentic RTB Framework 1.0), written into the Dockerfile. */
import { readFileSync } from 'node:fs'

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')

/** The document of the framework names the manifest twice: as text, and as Base64 beside the version. */
export function agentLabels(): Record<string, string> {
  const { version } = JSON.parse(read('package.json')) as { version: string }
  const manifest = JSON.stringify({ ...JSON.parse(read('opd/agent/manifest.json')), version })
  return {
    'agent-manifest': manifest,
    'com.iabtechlab.artf.descriptor': Buffer.from(manifest).toString('base64'),
    'com.iabtechlab.artf.container-version': version,
  }
}

const labels = /^LABEL agent-manifest=.*\n(?: {2}com\.iabtechlab\..*\n)+/m

/** The Dockerfile with the present labels. */
export function dockerfile(): string {
  const quoted = Object.entries(agentLabels()).map(([name, value]) => {
    if (/['\\$\n]/.test(value)) throw new Error(`${name} cannot be quoted in a Dockerfile`)
    return `${name}='${value}'`
  })
  return read('Dockerfile').replace(labels, () => `LABEL ${quoted.join(' \\\n  ')}\n`)
}
