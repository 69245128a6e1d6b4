//! The files that people copy: their settings are ones that the binary takes, their probes ask for routes that there are,
//! their ports are those that clients will be told.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on says so")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use yaml_rust2::{Yaml, YamlLoader};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docker").join(name)
}

fn documents(name: &str) -> Vec<Yaml> {
    let documents = YamlLoader::load_from_str(&fs::read_to_string(file(name)).unwrap()).unwrap();
    assert!(!documents.is_empty());
    documents
}

fn text(yaml: &Yaml) -> &str {
    yaml.as_str().unwrap_or_else(|| panic!("not a string: {yaml:?}"))
}

/// What `streamside config` makes of a file and an environment; it has to be content with both.
fn effective(config: &Path, environment: &[(String, String)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let told = Command::new(env!("CARGO_BIN_EXE_streamside"))
        .args(["config", "--config"])
        .arg(config)
        .current_dir(folder.path())
        .env_clear()
        .envs(environment.iter().cloned())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert!(told.status.success() && err.is_empty(), "{out}{err}");
    out.into_owned()
}

/// The value of a key, and that it is not a default.
fn has(effective: &str, key: &str, value: &str) {
    let line =
        effective.lines().find(|line| line.starts_with(&format!("{key} ")) || line.starts_with(&format!("{key}=")));
    let line = line.unwrap_or_else(|| panic!("no {key} in\n{effective}"));
    assert!(line.contains(value) && !line.contains("default"), "{line}");
}

/// Every container of every pod, each with its pod.
fn containers(documents: &[Yaml]) -> Vec<(&Yaml, &Yaml)> {
    let pods = documents.iter().map(|d| &d["spec"]["template"]["spec"]).filter(|pod| !pod.is_badvalue());
    pods.flat_map(|pod| pod["containers"].as_vec().unwrap().iter().map(move |container| (pod, container))).collect()
}

#[test]
fn the_compose_file_configures_what_there_is() {
    let compose = &documents("compose.yaml")[0];
    let ours = &compose["services"]["streamside"];
    let environment: Vec<(String, String)> = ours["environment"]
        .as_hash()
        .unwrap()
        .iter()
        .map(|(key, value)| (text(key).to_owned(), text(value).to_owned()))
        .collect();
    let effective = effective(&file("streamside.properties"), &environment);
    has(&effective, "streamside.upstream", "kafka:9092");
    has(&effective, "advertised.listeners", "PLAINTEXT://streamside:19092");
    has(&effective, "listeners", "PLAINTEXT://0.0.0.0:19092");
    let application = text(&compose["services"]["word-count"]["command"][2]);
    assert!(application.contains("bootstrap.servers=streamside:19092"), "{application}");
    assert!(compose["services"]["kafka"].as_hash().is_some());
}

#[test]
fn the_kubernetes_file_configures_what_there_is() {
    let documents = documents("kubernetes.yaml");
    let of_kind = |kind: &str| documents.iter().filter(|d| text(&d["kind"]) == kind).collect::<Vec<_>>();
    for document in &documents {
        let name = text(&document["metadata"]["name"]);
        assert!(text(&document["apiVersion"]) == "v1" || text(&document["apiVersion"]) == "apps/v1", "{name}");
        assert!(
            text(&document["kind"]) == "Namespace" || text(&document["metadata"]["namespace"]) == "streamside",
            "{name}"
        );
        if !document["spec"]["template"].is_badvalue() {
            let labels =
                (&document["spec"]["selector"]["matchLabels"], &document["spec"]["template"]["metadata"]["labels"]);
            assert_eq!(labels.0, labels.1, "{name}");
        }
    }

    let properties = text(&of_kind("Secret")[0]["stringData"]["streamside.properties"]);
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("streamside.properties");
    fs::write(&config, properties).unwrap();
    let effective = effective(&config, &[]);
    has(&effective, "streamside.upstream", "kafka:9092");
    has(&effective, "streamside.http.plaintext", "accept");

    let containers = containers(&documents);
    assert_eq!(containers.len(), 3);
    for (pod, container) in containers {
        let name = text(&container["name"]);
        assert_eq!(pod["enableServiceLinks"].as_bool(), Some(false), "{name}");
        if name != "streamside" {
            continue;
        }
        for (probe, path) in
            [("livenessProbe", "/healthz"), ("startupProbe", "/healthz"), ("readinessProbe", "/readyz")]
        {
            assert_eq!(text(&container[probe]["httpGet"]["path"]), path, "{probe}");
            assert_eq!(text(&container[probe]["httpGet"]["port"]), "http", "{probe}");
        }
        let service = of_kind("Service").into_iter().find(|s| text(&s["metadata"]["name"]) == "streamside").unwrap();
        // The listener, node 1 behind it at one more and its id, and HTTP: the same inside and outside.
        for (place, port) in [19_092, 19_092 + 1 + 1, 13_310].into_iter().enumerate() {
            assert_eq!(container["ports"][place]["containerPort"].as_i64(), Some(port));
            assert_eq!(service["spec"]["ports"][place]["port"].as_i64(), Some(port));
            assert_eq!(service["spec"]["ports"][place]["targetPort"].as_i64(), Some(port));
        }
    }
}
