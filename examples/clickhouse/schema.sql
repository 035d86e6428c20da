-- Events of bidweir in ClickHouse. Rows are inserted into bidweir.events, one JSON text each; the materialised views
-- sort them into tables. An event may come more than once: of rows with the same key, the one with the highest version
-- counts, so every query reads FINAL. Money is exact up to 18 fractional digits.

CREATE DATABASE IF NOT EXISTS bidweir;

CREATE TABLE IF NOT EXISTS bidweir.events (event String) ENGINE = Null;

CREATE TABLE IF NOT EXISTS bidweir.decisions
(
    decision String,
    version UInt8,
    time DateTime64(3, 'UTC'),
    ssp LowCardinality(String),
    mode LowCardinality(String),
    arm LowCardinality(String),
    propensity Float64,
    publisher String,
    domain String,
    in_ba Decimal(76, 18),
    out_ba Decimal(76, 18),
    currency LowCardinality(String),
    floor Nullable(Float64),
    win_in Nullable(Float64),
    win_out Nullable(Float64),
    guard LowCardinality(String),
    model UInt64
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toDate(time)
ORDER BY (ssp, toStartOfHour(time), decision)
TTL toDateTime(time) + INTERVAL 90 DAY;

CREATE TABLE IF NOT EXISTS bidweir.wins
(
    decision String,
    event LowCardinality(String),
    version UInt8,
    status LowCardinality(String),
    time DateTime64(3, 'UTC'),
    decided_at Nullable(DateTime64(3, 'UTC')),
    ssp LowCardinality(String),
    notices LowCardinality(String),
    mode LowCardinality(String),
    arm LowCardinality(String),
    by LowCardinality(String),
    publisher String,
    domain String,
    in_ba Nullable(Decimal(76, 18)),
    out_ba Nullable(Decimal(76, 18)),
    cleared Decimal(76, 18),
    price_dsp Nullable(Decimal(76, 18)),
    currency LowCardinality(String),
    margin Nullable(Decimal(76, 18)),
    late Bool,
    over Bool
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toDate(time)
ORDER BY (ssp, toStartOfHour(time), decision, event)
TTL toDateTime(time) + INTERVAL 400 DAY;

CREATE TABLE IF NOT EXISTS bidweir.losses
(
    decision String,
    version UInt8,
    time DateTime64(3, 'UTC'),
    ssp LowCardinality(String),
    reason LowCardinality(String),
    min_to_win Nullable(Decimal(76, 18))
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toDate(time)
ORDER BY decision
TTL toDateTime(time) + INTERVAL 90 DAY;

CREATE MATERIALIZED VIEW IF NOT EXISTS bidweir.decisions_of_events TO bidweir.decisions AS
SELECT
    JSONExtractString(event, 'decision') AS decision,
    toUInt8(JSONExtractUInt(event, 'version')) AS version,
    fromUnixTimestamp64Milli(JSONExtractInt(event, 'time'), 'UTC') AS time,
    JSONExtractString(event, 'ssp') AS ssp,
    JSONExtractString(event, 'mode') AS mode,
    JSONExtractString(event, 'arm') AS arm,
    JSONExtractFloat(event, 'propensity') AS propensity,
    JSONExtractString(event, 'publisher') AS publisher,
    JSONExtractString(event, 'domain') AS domain,
    toDecimal256(JSONExtractString(event, 'in'), 18) AS in_ba,
    toDecimal256(JSONExtractString(event, 'out'), 18) AS out_ba,
    JSONExtractString(event, 'currency') AS currency,
    JSONExtract(event, 'floor', 'Nullable(Float64)') AS floor,
    JSONExtract(event, 'win_in', 'Nullable(Float64)') AS win_in,
    JSONExtract(event, 'win_out', 'Nullable(Float64)') AS win_out,
    JSONExtractString(event, 'guard') AS guard,
    JSONExtractUInt(event, 'model') AS model
FROM bidweir.events
WHERE JSONExtractString(event, 'type') = 'decision';

CREATE MATERIALIZED VIEW IF NOT EXISTS bidweir.wins_of_events TO bidweir.wins AS
SELECT
    JSONExtractString(events.event, 'decision') AS decision,
    JSONExtractString(events.event, 'event') AS event,
    toUInt8(JSONExtractUInt(events.event, 'version')) AS version,
    JSONExtractString(events.event, 'status') AS status,
    fromUnixTimestamp64Milli(JSONExtractInt(events.event, 'time'), 'UTC') AS time,
    fromUnixTimestamp64Milli(JSONExtract(events.event, 'decided_at', 'Nullable(Int64)'), 'UTC') AS decided_at,
    JSONExtractString(events.event, 'ssp') AS ssp,
    JSONExtractString(events.event, 'notices') AS notices,
    JSONExtractString(events.event, 'mode') AS mode,
    JSONExtractString(events.event, 'arm') AS arm,
    JSONExtractString(events.event, 'by') AS by,
    JSONExtractString(events.event, 'publisher') AS publisher,
    JSONExtractString(events.event, 'domain') AS domain,
    toDecimal256OrNull(JSONExtractString(events.event, 'in'), 18) AS in_ba,
    toDecimal256OrNull(JSONExtractString(events.event, 'out'), 18) AS out_ba,
    toDecimal256(JSONExtractString(events.event, 'cleared'), 18) AS cleared,
    toDecimal256OrNull(JSONExtractString(events.event, 'price_dsp'), 18) AS price_dsp,
    JSONExtractString(events.event, 'currency') AS currency,
    toDecimal256OrNull(JSONExtractString(events.event, 'margin'), 18) AS margin,
    JSONExtractBool(events.event, 'late') AS late,
    JSONExtractBool(events.event, 'over') AS over
FROM bidweir.events
WHERE JSONExtractString(events.event, 'type') = 'win';

CREATE MATERIALIZED VIEW IF NOT EXISTS bidweir.losses_of_events TO bidweir.losses AS
SELECT
    JSONExtractString(event, 'decision') AS decision,
    toUInt8(JSONExtractUInt(event, 'version')) AS version,
    fromUnixTimestamp64Milli(JSONExtractInt(event, 'time'), 'UTC') AS time,
    JSONExtractString(event, 'ssp') AS ssp,
    JSONExtractString(event, 'reason') AS reason,
    toDecimal256OrNull(JSONExtractString(event, 'min_to_win'), 18) AS min_to_win
FROM bidweir.events
WHERE JSONExtractString(event, 'type') = 'loss';

-- What the margin report is made of: decided bids and wins by hour, and by all that the report groups by.
CREATE VIEW IF NOT EXISTS bidweir.margin_rows AS
SELECT
    ssp, publisher, domain, toStartOfHour(time) AS hour, arm, '' AS currency,
    count() AS bids, 0 AS won,
    toDecimal256(0, 21) AS cleared_money, toDecimal256(0, 21) AS margin_money, 0. AS margin_sum, 0. AS margin_squares
FROM bidweir.decisions FINAL
GROUP BY ssp, publisher, domain, hour, arm
UNION ALL
SELECT
    ssp, publisher, domain, toStartOfHour(time) AS hour, arm, currency,
    0 AS bids,
    -- A win is counted by the event that the supplier's setting says, or else by its money.
    countIf(event = if(notices = 'billing', 'billing', 'win') OR (notices != 'both' AND margin IS NOT NULL)) AS won,
    -- Prices are CPM: a thousandth is the money of one impression.
    sumIf(cleared, margin IS NOT NULL) * toDecimal256('0.001', 3) AS cleared_money,
    sum(ifNull(margin, toDecimal256(0, 18))) * toDecimal256('0.001', 3) AS margin_money,
    sum(ifNull(toFloat64(margin), 0)) AS margin_sum,
    sum(pow(ifNull(toFloat64(margin), 0), 2)) AS margin_squares
FROM bidweir.wins FINAL
WHERE status = 'attributed' AND arm != 'test'
GROUP BY ssp, publisher, domain, hour, arm, currency;
