/** A caller and a server on grpc-go: `AGENT_PEER="$(.ci/agent-peer CACHE)"`. */
import { existsSync } from 'node:fs'

export const agentPeer = process.env['AGENT_PEER'] ?? ''

export const agentPeerAbsent = existsSync(agentPeer) ? false : 'agent-peer (grpc-go) not found'
