import type { Redaction, TranscriptionOptions } from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import { languageCode } from '../language.ts'

/**
 * The policies that stand for each kind of redaction, out of the 44 that `redact_pii_policies` takes (assemblyai
 * 4.41.5, dist/types/openapi.generated.d.ts). Without explicit ones the provider would choose. Where a policy is in
 * doubt it is in: what is redacted too much can be asked for again, what is redacted too little is out.
 */
const POLICIES: Readonly<Record<Redaction, readonly string[]>> = {
  /** Identity, personal belongings and attributes protected by law. */
  pii: [
    ...['account_number', 'banking_information', 'credit_card_cvv', 'credit_card_expiration'],
    ...['credit_card_number', 'date_of_birth', 'drivers_license', 'email_address', 'gender_sexuality'],
    ...['healthcare_number', 'ip_address', 'location', 'marital_status', 'nationality', 'number_sequence'],
    ...['occupation', 'passport_number', 'password', 'person_age', 'person_name', 'phone_number'],
    ...['physical_attribute', 'political_affiliation', 'religion', 'us_social_security_number', 'username'],
    ...['vehicle_id', 'zodiac_sign'],
  ],
  phi: [
    ...['blood_type', 'drug', 'healthcare_number', 'injury', 'medical_condition', 'medical_process'],
    'statistics',
  ],
  pci: ['credit_card_cvv', 'credit_card_expiration', 'credit_card_number'],
  /** Anything said in digits. */
  numbers: [
    ...['account_number', 'banking_information', 'credit_card_cvv', 'credit_card_expiration'],
    ...['credit_card_number', 'date', 'date_interval', 'date_of_birth', 'drivers_license', 'duration'],
    ...['healthcare_number', 'ip_address', 'money_amount', 'number_sequence', 'passport_number'],
    ...['person_age', 'phone_number', 'statistics', 'time', 'us_social_security_number', 'vehicle_id'],
  ],
}

/**
 * Languages in which the provider redacts. With one that it detects by itself it leaves redaction out
 * silently where it has none. https://www.assemblyai.com/docs/guardrails/redact-pii-from-transcripts and
 * https://www.assemblyai.com/docs/pre-recorded-audio/supported-languages
 */
export const REDACTED_LANGUAGES: ReadonlySet<string> = new Set(
  (
    'en es fr de it pt nl hi ja zh fi ko pl ru tr uk vi af ar be bg my ca hr cs da et ka el he hu is id km ' +
    'lv lt lb ms no fa ro sk sl sw sv tl ta'
  ).split(' '),
)

/** Policies for the kinds that were asked for, each once. */
export function policiesOf(redaction: readonly Redaction[]): string[] {
  return [...new Set(redaction.flatMap((kind) => POLICIES[kind]))].sort()
}

/** Kinds by how little they redact beside what is asked for. */
const NARROWEST_FIRST = ['pci', 'phi', 'pii', 'numbers'] as const

/** The kinds that together redact what the policies name; null where one is named that none of them does. */
export function kindsFor(policies: readonly string[]): readonly Redaction[] | null {
  const kinds = new Set<Redaction>()
  for (const policy of policies) {
    const covers = (kind: Redaction) => POLICIES[kind].includes(policy)
    if ([...kinds].some(covers)) continue
    const kind = NARROWEST_FIRST.find(covers)
    if (kind === undefined) return null
    kinds.add(kind)
  }
  return [...kinds]
}

/** The fields of a request that redact: names of what was there (`[PERSON_NAME]`), not rows of `#`. */
export function encodeRedaction({ redaction }: TranscriptionOptions): JsonObject {
  if (redaction.length === 0) return {}
  return {
    redact_pii: true,
    redact_pii_policies: policiesOf(redaction),
    redact_pii_sub: 'entity_name',
  }
}

/**
 * Whether a transcript that was to be redacted cannot be shown to be: the provider has to repeat each
 * policy, and the language must be one in which it redacts.
 */
export function isUnredacted(body: JsonObject, { redaction }: TranscriptionOptions): boolean {
  if (redaction.length === 0) return false
  const { redact_pii: redacted, redact_pii_policies: policies, language_code: language } = body
  const kept: ReadonlySet<unknown> = new Set(Array.isArray(policies) ? policies : [])
  const code = typeof language === 'string' ? languageCode(language) : null
  const known = code !== null && REDACTED_LANGUAGES.has(code)
  return redacted !== true || !known || policiesOf(redaction).some((policy) => !kept.has(policy))
}
