/** Endpoints to filter requests by, as they are noted: the pattern of the path, and `job` for runs of jobs. */
export const ENDPOINTS: readonly string[] = [
  '/v1/transcription',
  '/v1/translation',
  '/v1/speech',
  '/v1/audio',
  '/v1/chat',
  '/v1/complete',
  '/v1/vision',
  '/v1/embeddings',
  '/v1/image',
  '/v1/video',
  '/v1/transcription/jobs',
  '/v1/transcription/jobs/:job_id',
  '/v1/queue',
  'job',
  '/v1/me',
  '/openai/v1/audio/transcriptions',
  '/openai/v1/audio/translations',
  '/openai/v1/audio/speech',
  '/openai/v1/chat/completions',
  '/openai/v1/completions',
  '/openai/v1/embeddings',
  '/openai/v1/images/generations',
  '/openai/v1/models',
  '/openai/v1/models/:model',
]

/** A run of a job has no path of its own. */
export function endpointName(path: string): string {
  return path === 'job' ? 'Job run' : path
}
