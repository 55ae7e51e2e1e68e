import type { AppAnswer, RouteAnswer } from '../../../api/answers.ts'

/** The routes that an app's calls take when no purpose is named: of what they need, or its own. */
export function appRoutes(fields: AppAnswer['fields'] | undefined) {
  const { route = '', capability_routes: byCapability = {} } = fields ?? {}
  const routes = byCapability as Readonly<Record<string, string | undefined>>
  return { hearing: routes.audio_input ?? route, speaking: routes.audio_output ?? route }
}

/** Names of voices that entries of a route translate for their provider, each once. */
export function voicesOf({ published }: RouteAnswer): readonly string[] {
  const names = published?.fields.entries.flatMap(({ voices }) => Object.keys(voices ?? {})) ?? []
  return [...new Set(names)].sort()
}
