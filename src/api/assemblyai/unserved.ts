import { GatewayError } from '../../errors.ts'
import type { EdgeRoute } from '../../inbound/server.ts'
import { type Dependencies, observedRoute } from '../endpoint.ts'
import { ASSEMBLYAI } from './door.ts'

/** Parts of AssemblyAI's interface that have no place here, and what has. */
const UNSERVED: Readonly<Record<string, string>> = {
  '/assemblyai/lemur/*': 'LeMUR is not served here; send the text of the transcript to POST /v1/chat',
  '/assemblyai/v2/realtime/*':
    "streaming in AssemblyAI's format is not served here; see GET /v1/transcription/stream",
  '/assemblyai/v3/*': "streaming in AssemblyAI's format is not served here; see GET /v1/transcription/stream",
}
const METHODS = ['GET', 'POST', 'DELETE'] as const

/** Answers 404 in the form that AssemblyAI's clients read, and names what is not served. */
export function unservedRoutes(dependencies: Dependencies): EdgeRoute[] {
  return Object.entries(UNSERVED).flatMap(([path, why]) =>
    METHODS.map((method) =>
      observedRoute(dependencies, { method, path, door: ASSEMBLYAI.door }, () => {
        throw new GatewayError('NOT_FOUND', why)
      }),
    ),
  )
}
