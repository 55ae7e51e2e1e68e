import { Type } from 'typebox'
import { workspaceAdmin } from '../../admin/actor.ts'
import { AUDIO_URL_DOMAINS_MAX, replaceAudioUrlDomains } from '../../admin/settings.ts'
import { endpoint } from '../endpoint.ts'
import { jsonReply } from '../json-reply.ts'
import { AudioUrlDomains } from '../openapi/answers.ts'
import { json } from '../openapi/operation.ts'
import { SETTINGS, settingsBody } from './workspace.ts'

export const DomainsBody = Type.Object({
  domains: Type.Array(Type.String(), {
    description:
      'hosts that audio may be fetched from: host names, or `*.` and a host name for its subdomains',
  }),
})

const SHARED = {
  ...SETTINGS,
  path: '/workspace/:tenant_id/audio-url-domains',
  errors: ['NOT_FOUND'],
} as const

export const showAudioUrlDomains = endpoint({
  ...SHARED,
  method: 'GET',
  id: 'showAudioUrlDomains',
  summary: 'List allowed audio domains',
  answers: [{ status: 200, description: 'the list', contents: [json(AudioUrlDomains)] }],
  async handle({ context: { principal }, dependencies: { services } }) {
    return reply(await services.state.settings.audioUrlDomains(principal.workspace.id))
  },
})

/** Replaces the list as a whole. */
export const putAudioUrlDomains = endpoint({
  ...SHARED,
  method: 'PUT',
  id: 'replaceAudioUrlDomains',
  summary: 'Replace allowed audio domains',
  body: settingsBody(DomainsBody),
  answers: [{ status: 200, description: 'the list as stored', contents: [json(AudioUrlDomains)] }],
  async handle({ context: { principal }, dependencies: { services }, body: { domains } }) {
    const input = { workspace: principal.workspace.id, domains }
    return reply(await replaceAudioUrlDomains(workspaceAdmin(principal), input, services))
  },
})

function reply(domains: readonly string[]) {
  return jsonReply({ domains, max_domains: AUDIO_URL_DOMAINS_MAX })
}
