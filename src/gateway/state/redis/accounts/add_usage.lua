-- Counts what calls without a reservation came to, once per batch, or moves it between keys.
--
-- KEYS usage spent account
-- ARGV spent_micros token_ms counted_in
-- Reply 1 | 0: whether this call counted it
--
-- `spent_micros` is a JSON object: key id -> micro-USD. `usage` is a key of the batch's own and remembers it for
-- `token_ms`. An empty `counted_in`: it counts in the present month; else only if that is this one.

local usage, spent, account = unpack(KEYS)

local batch = cjson.decode(ARGV[1])
if not redis.call('SET', usage, '', 'NX', 'PX', ARGV[2]) then return 0 end

local month = begin_month(account, spent)
if ARGV[3] ~= '' and ARGV[3] ~= month then return 1 end
for key_id, micros in pairs(batch) do
  spend_more(spent, month, key_id, micros)
  book(account, micros)
end
redis.call('PEXPIRE', spent, SPENT_TTL_MS)
return 1
