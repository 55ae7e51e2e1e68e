import { type Answer, type CallBody, first, json, Refusal } from './http.ts'

import { TRANSCRIPT_FORMATS, type TranscriptFormat } from './transcript.ts'

export type Task = 'transcription' | 'speech' | 'chat' | 'embeddings' | 'images' | 'videos'

interface Model {
  readonly tasks: readonly Task[]
  /** The transcript formats that it knows. */
  readonly formats: readonly TranscriptFormat[]
}

const TEXT_ONLY: readonly TranscriptFormat[] = ['json', 'text']
const EVERYTHING: readonly Task[] = ['transcription', 'speech', 'chat', 'embeddings', 'images', 'videos']
/** When the models were made, Unix seconds. */
const CREATED = 1_795_000_000

/** OpenAI's names are there too, so that a client made for OpenAI can be pointed here as it is. */
const MODELS: ReadonlyMap<string, Model> = new Map([
  ['morse-1', { tasks: EVERYTHING, formats: TRANSCRIPT_FORMATS }],
  ['morse-1-mini', transcribes(TEXT_ONLY, 'chat')],
  ['whisper-1', transcribes(TRANSCRIPT_FORMATS.filter((format) => format !== 'diarized_json'))],
  ['gpt-4o-transcribe', transcribes(TEXT_ONLY)],
  ['gpt-4o-transcribe-diarize', transcribes([...TEXT_ONLY, 'diarized_json'])],
  ['tts-1', { tasks: ['speech'], formats: [] }],
  ['gpt-4o-mini', { tasks: ['chat'], formats: [] }],
  ['text-embedding-3-small', { tasks: ['embeddings'], formats: [] }],
  ['gpt-image-2', { tasks: ['images'], formats: [] }],
  ['sora-2', { tasks: ['videos'], formats: [] }],
])

function transcribes(formats: readonly TranscriptFormat[], ...others: readonly Task[]): Model {
  return { tasks: ['transcription', ...others], formats }
}

/** `GET /v1/models` */
export function listModels(): Answer {
  const data = [...MODELS.keys()].map((id) => ({
    id,
    object: 'model',
    created: CREATED,
    owned_by: 'larkway-sandbox',
  }))
  return json(200, { object: 'list', data })
}

/**
 * The model that the body names, which must be one for the task.
 *
 * @throws Refusal
 */
export function modelFor(task: Task, body: CallBody): Model & { readonly name: string } {
  const name = first(body, 'model')
  if (name === undefined) throw new Refusal(400, 'you must provide a model parameter', { param: 'model' })
  const model = MODELS.get(name)
  if (model?.tasks.includes(task)) return { ...model, name }
  const lacks = model === undefined ? 'does not exist or you do not have access to it' : `is not for ${task}`
  throw new Refusal(404, `The model '${name}' ${lacks}.`, { param: 'model', code: 'model_not_found' })
}
