-- Reads the topic into bidweir.events. Replace the brokers and the topic. A consumer that starts again reads some
-- events twice, which changes no sum.
CREATE TABLE IF NOT EXISTS bidweir.topic (event String)
ENGINE = Kafka
SETTINGS
    kafka_broker_list = 'kafka:9092',
    kafka_topic_list = 'bidweir',
    kafka_group_name = 'clickhouse',
    kafka_format = 'JSONAsString';

CREATE MATERIALIZED VIEW IF NOT EXISTS bidweir.events_of_topic TO bidweir.events AS
SELECT event FROM bidweir.topic;
