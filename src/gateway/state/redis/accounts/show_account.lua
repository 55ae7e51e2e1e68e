-- How an account stands, after the grant of its terms was booked and lost reservations were counted.
--
-- KEYS account grants spent reservations leases charged lost
-- ARGV grant_id grant
-- Reply {account, month, spent, grants}: `month` is a text, all others are fields and values in turn; a grant is
-- `micros booked_at_ms`
--
-- An empty `grant_id`: the terms have none. Reservations past their lease are charged; that takes no longer here than a
-- node may block the others, so the last of very many may be left to the next call.

local SWEPT_AT_ONCE = 500

local account, grants, spent, reservations, leases, charged, lost = unpack(KEYS)

expire_due({ account = account, spent = spent, reservations = reservations, leases = leases, charged = charged,
  lost = lost }, SWEPT_AT_ONCE)
book_grant(account, grants, ARGV[1], ARGV[2])

local month = month_of(now_ms)
local sums = redis.call('HGET', spent, 'month') == month and redis.call('HGETALL', spent) or {}
return { redis.call('HGETALL', account), month, sums, redis.call('HGETALL', grants) }
