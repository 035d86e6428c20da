/**
 * The bill of materials of the image: `npm sbom | node sbom.mjs STATUS OS_RELEASE`. Adds Node.js and the packages of the
 * system to those of npm, and removes what differs in each build.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const [status, osRelease] = process.argv.slice(2)
const { serialNumber: _, ...bom } = JSON.parse(readFileSync(0, 'utf8'))
delete bom.metadata.timestamp
const os = new Map(
  readFileSync(osRelease, 'utf8')
    .split('\n')
    .map((line) => line.replaceAll('"', '').split('=')),
)

function ofPackage(file) {
  const text = readFileSync(join(status, file), 'utf8')
  const field = (name) => new RegExp(`^${name}: (.*)$`, 'm').exec(text)[1]
  const [name, version] = [field('Package'), field('Version')]
  const purl = `pkg:deb/${os.get('ID')}/${name}@${encodeURIComponent(version)}?arch=${field('Architecture')}&distro=${os.get('ID')}-${os.get('VERSION_ID')}`
  return { type: 'library', 'bom-ref': purl, name, version, purl }
}

const { node } = process.versions
const ofNode = {
  ...{ type: 'application', 'bom-ref': `node@${node}`, name: 'node', version: node },
  purl: `pkg:generic/node@${node}`,
  cpe: `cpe:2.3:a:nodejs:node.js:${node}:*:*:*:*:*:*:*`,
}
bom.components.push(ofNode, ...readdirSync(status).sort().map(ofPackage))
process.stdout.write(`${JSON.stringify(bom, null, 2)}\n`)
