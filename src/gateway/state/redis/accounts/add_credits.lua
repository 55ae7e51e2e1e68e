-- Books credits once per grant id, or takes them back when they are negative, but not below zero.
--
-- KEYS account grants spent reservations leases charged lost
-- ARGV grant_id micros
-- Reply {1 | 0, credits}: whether this call booked it, and what the account has
--
-- A grant is written down as what was booked in truth, so that the grants add up. What expired leases give back counts.

local SWEPT_AT_ONCE = 500

local account, grants, spent, reservations, leases, charged, lost = unpack(KEYS)
expire_due({ account = account, spent = spent, reservations = reservations, leases = leases, charged = charged,
  lost = lost }, SWEPT_AT_ONCE)

local credits = redis.call('HGET', account, 'credits') or '0'
if redis.call('HEXISTS', grants, ARGV[1]) == 1 then return { 0, credits } end

book_grant(account, grants, ARGV[1], digits(math.max(tonumber(ARGV[2]), -tonumber(credits))))
return { 1, redis.call('HGET', account, 'credits') }
