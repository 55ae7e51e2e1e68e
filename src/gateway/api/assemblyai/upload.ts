import { toAbortSignal } from '../../../contracts/cancellation.ts'
import { limitsOf, routesOf } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import { newId } from '../../../contracts/ids.ts'
import { type ReceivedAudio, receiveAudio } from '../../edge/body.ts'
import { type Admitted, type EndpointCall, endpoint } from '../endpoint.ts'
import { checkMayUpload } from '../fields.ts'
import { jsonReply } from '../json-reply.ts'
import { AssemblyAiUpload } from '../openapi/assemblyai-answers.ts'
import { ANY_AUDIO, json } from '../openapi/operation.ts'
import { ASSEMBLYAI } from './door.ts'
import { uploadUrl } from './upload-url.ts'

const LAYOUT = { form: 'raw', urlFields: [], missing: 'send the audio as the body' } as const

interface ReceivedUpload {
  readonly id: string
  readonly received: ReceivedAudio
}

export const upload = endpoint({
  ...ASSEMBLYAI,
  method: 'POST',
  path: '/assemblyai/v2/upload',
  kind: 'none',
  id: 'assemblyaiUpload',
  summary: 'Upload audio',
  description: 'The body is the audio. It can be transcribed by keys of this workspace for 24 hours.',
  body: {
    contents: ANY_AUDIO,
    parameters: ['Require'],
    receive,
  },
  answers: [{ status: 200, description: 'where it is', contents: [json(AssemblyAiUpload)], headers: [] }],
  errors: ['AUDIO_TOO_LARGE', 'UNSUPPORTED_AUDIO_FORMAT', 'REQUIRED_FEATURE_UNAVAILABLE'],
  handle: uploadAnswer,
})

/** Streams the body into the store, or holds it until it is whole. */
async function receive(request: Admitted): Promise<ReceivedUpload> {
  checkMayUpload(request)
  const { exchange, context, deps } = request
  const { services, spool } = deps
  const { workspace } = context.principal
  const id = newId('upl')
  const limits = limitsOf(context.principal, services.snapshot())
  const options = { spool, limits, workspace: workspace.id, upload: id, layout: LAYOUT }
  return { id, received: await receiveAudio(exchange, options) }
}

async function uploadAnswer({ context, deps, body: { id, received } }: EndpointCall<ReceivedUpload>) {
  const { jobs, probe, secretKeys, services } = deps
  const workspace = context.principal.workspace.id
  const { source } = received
  if (source.kind !== 'audio') throw new Error('a raw body is the audio')
  const isStored = source.audio.source.kind === 'object'
  try {
    const owner = { id, workspace }
    const signal = toAbortSignal(context.signal)
    // Anything but audio is refused here, instead of being kept for a day.
    const { format } = await probe.probe(source.audio, signal)
    if (format === 'other' && ![...routesOf(context.principal)].some(({ transcodes }) => transcodes))
      throw new GatewayError('UNSUPPORTED_AUDIO_FORMAT', undefined, { param: 'audio' })
    const kept = await jobs.objects.keepUpload(source.audio, owner, signal)
    if (!isStored) received.release()
    return await jsonReply({ upload_url: uploadUrl(kept, workspace, secretKeys, services.clock.wallNow()) })
  } catch (error) {
    received.release()
    throw error
  }
}
