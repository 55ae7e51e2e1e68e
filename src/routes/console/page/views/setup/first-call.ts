import type { SetupAnswer } from '../../../api/answers.ts'

/** A request that works as it stands, for what the route can do. */
export interface FirstCall {
  readonly curl: string
  /** Makes the same request from the page. */
  readonly send: (key: string) => Promise<Response>
}

const SAMPLE = '/console/assets/hello.wav'
const BEARER = '-H "Authorization: Bearer $LARKWAY_API_KEY"'

/**
 * Audio for the sandbox, which hears Morse code; a text for a model of another provider, of which nobody knows what it
 * would make of that; and audio again for models that do nothing else.
 *
 * @param key shown in the command; null: whoever runs it has one
 */
export function firstCallOf(
  { capabilities, kind }: NonNullable<SetupAnswer['route']>,
  key: string | null,
): FirstCall {
  const { origin } = location
  const exported = key === null ? [] : [`export LARKWAY_API_KEY=${key}`]
  const can = (name: (typeof capabilities)[number]) => capabilities.includes(name)
  const json = (path: string, body: object, ...more: readonly string[]): FirstCall => ({
    curl: [
      ...exported,
      [
        `curl -sS --fail-with-body ${origin}${path}`,
        BEARER,
        "-H 'Content-Type: application/json'",
        `-d '${JSON.stringify(body)}'`,
        ...more,
      ].join(' \\\n  '),
    ].join('\n'),
    send: (bearer) =>
      fetch(path, {
        method: 'POST',
        credentials: 'omit',
        headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
  })
  if (can('text') && kind !== 'sandbox')
    return json('/v1/chat', { messages: [{ role: 'user', content: 'Say hello in one sentence.' }] })
  if (can('audio_input') || capabilities.length === 0)
    return {
      curl: [
        ...exported,
        `curl -sSO ${origin}${SAMPLE}`,
        [`curl -sS --fail-with-body ${origin}/v1/transcription`, BEARER, '-F file=@hello.wav'].join(
          ' \\\n  ',
        ),
      ].join('\n'),
      send: async (bearer) => {
        const body = new FormData()
        body.append('file', await (await fetch(SAMPLE)).blob(), 'hello.wav')
        return fetch('/v1/transcription', {
          method: 'POST',
          credentials: 'omit',
          headers: { authorization: `Bearer ${bearer}` },
          body,
        })
      },
    }
  if (can('audio_output')) return json('/v1/speech', { input: 'hello world' })
  if (can('embeddings')) return json('/v1/embeddings', { input: 'hello world' })
  return json('/v1/image', { prompt: 'a lark above a field at dawn' })
}
