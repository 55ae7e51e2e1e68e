const FACTS = { capabilities: ['audio_input'], features: [], price: { per_hour_usd: 0.36 } }
const SHADOW = { entry: { provider: 'other', model: 'new', ...FACTS }, share: 1 }

/** Two providers of one server: the shadow's paths begin with `/shadow`. */
export function shadowedProviders(origin: string) {
  const compatible = { kind: 'openai-compatible', access: 'platform' }
  return {
    first: { ...compatible, base_url: `${origin}/entry/v1` },
    other: { ...compatible, base_url: `${origin}/shadow/v1` },
  }
}

/** A route of the one, all of whose calls go to the other too. */
export function shadowedRoute(workspace: string, more: { readonly references?: object } = {}) {
  return {
    workspace,
    shadow: { ...SHADOW, ...more },
    entries: [{ provider: 'first', model: 'old', ...FACTS }],
  }
}
